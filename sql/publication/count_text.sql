-- Rows in which one of the text columns, if there are any, holds exactly this text.
SELECT count(*)
FROM {{ table }}
WHERE list_contains([{{ columns | ids }}]::VARCHAR[], $text)
