-- Views, with their text.
SELECT schema_name || '.' || view_name AS name, sql
FROM duckdb_views()
WHERE database_name = $zone AND NOT internal
