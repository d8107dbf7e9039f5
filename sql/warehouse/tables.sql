-- The tables and views of a schema, by their columns: of a lake, `duckdb_tables` would fetch statistics of every table.
SELECT DISTINCT table_name AS name, false AS is_view
FROM duckdb_columns()
WHERE database_name = $zone AND schema_name = $schema AND table_name NOT IN (
    SELECT view_name FROM duckdb_views() WHERE database_name = $zone AND schema_name = $schema
)
UNION ALL
SELECT view_name, true
FROM duckdb_views()
WHERE database_name = $zone AND schema_name = $schema
ORDER BY name
