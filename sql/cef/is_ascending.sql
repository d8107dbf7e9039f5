-- Whether each key is greater than that of the row before, so that none is there twice, whatever the order of rows.
-- DuckDB looks at the row before on one thread, without a sort or a table of all keys.
SELECT coalesce(bool_and(key > previous), true)
FROM (SELECT {{ key | id }} AS key, lag({{ key | id }}) OVER () AS previous FROM {{ table }} WHERE {{ key | id }} IS NOT NULL)
WHERE previous IS NOT NULL
