-- The number of rows in which one of the text columns, if there are any, equals this text.
SELECT count(*)
FROM {{ table }}
WHERE list_contains([{{ columns | ids }}]::VARCHAR[], $text)
