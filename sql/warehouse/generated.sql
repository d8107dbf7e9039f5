-- Stirred writes no column that is generated or has a default.
SELECT DISTINCT schema_name || '.' || table_name || '.' || column_name
FROM duckdb_columns()
WHERE database_name = $zone AND NOT internal AND column_default IS NOT NULL
