SELECT sql
FROM duckdb_views()
WHERE database_name = $database AND schema_name = $schema AND view_name = $view
