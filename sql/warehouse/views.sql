-- Views with their text, in the columns of `carried`.
SELECT database_name AS zone, schema_name || '.' || view_name AS name, 'view' AS kind, sql AS definition,
    comment IS NOT NULL OR cardinality(tags) > 0 AS is_commented
FROM duckdb_views()
WHERE database_name IN {{ zones }}
