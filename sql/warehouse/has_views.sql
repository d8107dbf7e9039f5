-- Whether there are views, without their texts.
SELECT 1 FROM duckdb_views() WHERE database_name IN $zones AND NOT internal LIMIT 1
