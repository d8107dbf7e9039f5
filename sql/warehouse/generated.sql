-- Tables with a column that is generated or has a default other than NULL: Stirred writes none.
SELECT DISTINCT database_name AS zone, schema_name || '.' || table_name AS name
FROM duckdb_columns()
WHERE database_name IN {{ zones }} AND column_default <> 'NULL'
