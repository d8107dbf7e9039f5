SELECT count(*)
FROM {{ table }}
WHERE list_contains([{{ columns | ids }}]::VARCHAR[], $text)
