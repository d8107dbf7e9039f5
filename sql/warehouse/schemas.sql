SELECT schema_name FROM duckdb_schemas() WHERE database_name = $zone AND NOT internal ORDER BY schema_name
