-- Whether an instance still has anything, besides macros, that is not DuckDB's own.
SELECT 1 FROM duckdb_tables()
UNION ALL SELECT 1 FROM duckdb_views() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_sequences()
UNION ALL SELECT 1 FROM duckdb_types() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_schemas() WHERE NOT internal AND schema_name <> 'main'
LIMIT 1
