-- What zones carry: tables with their definitions, views without, indexes, sequences and types.
SELECT database_name AS zone, schema_name || '.' || table_name AS name, 'table' AS kind, sql AS definition,
    comment IS NOT NULL OR cardinality(tags) > 0 AS is_commented
FROM duckdb_tables()
WHERE database_name IN {{ zones }}
UNION ALL
SELECT database_name, schema_name || '.' || view_name, 'view', '', false
FROM duckdb_views()
WHERE database_name IN {{ zones }}
UNION ALL
SELECT database_name, schema_name || '.' || index_name, 'index', '', false
FROM duckdb_indexes()
WHERE database_name IN {{ zones }}
UNION ALL
SELECT database_name, schema_name || '.' || sequence_name, 'sequence', '', false
FROM duckdb_sequences()
WHERE database_name IN {{ zones }}
UNION ALL
SELECT database_name, schema_name || '.' || type_name, 'type', '', false
FROM duckdb_types()
WHERE database_name IN {{ zones }} AND NOT internal
