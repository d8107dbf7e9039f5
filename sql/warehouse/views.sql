-- Views, with their text.
SELECT database_name AS zone, schema_name || '.' || view_name AS name, sql
FROM duckdb_views()
WHERE database_name IN {{ zones }} AND NOT internal
