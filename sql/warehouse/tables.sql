SELECT table_name AS name, false AS is_view
FROM duckdb_tables()
WHERE database_name = $zone AND schema_name = $schema
UNION ALL
SELECT view_name, true
FROM duckdb_views()
WHERE database_name = $zone AND schema_name = $schema
ORDER BY name
