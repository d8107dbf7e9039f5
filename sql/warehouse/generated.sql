-- Stirred writes no column that is generated or has a default.
SELECT DISTINCT database_name AS zone, schema_name || '.' || table_name || '.' || column_name AS name
FROM duckdb_columns()
WHERE database_name IN $zones AND NOT internal AND column_default IS NOT NULL
