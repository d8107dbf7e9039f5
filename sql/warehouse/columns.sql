SELECT column_name, data_type
FROM duckdb_columns()
WHERE database_name = $zone AND schema_name = $schema AND table_name = $table
ORDER BY column_index
