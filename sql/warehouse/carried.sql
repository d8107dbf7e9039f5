-- What zones carry: tables with their definitions, views without, indexes, sequences and types. Of lakes, DuckDB would
-- fetch the statistics of each table with its definition, so that columns and comments are read instead.
{% if catalogs %}
SELECT database_name AS zone, schema_name || '.' || table_name AS name, 'table' AS kind,
    'CREATE TABLE t(' || string_agg(
        '"' || replace(column_name, '"', '""') || '" ' || data_type || coalesce(' DEFAULT(' || column_default || ')', '') || if(is_nullable, '', ' NOT NULL'),
        ', ' ORDER BY column_index
    ) || ');' AS definition,
    false AS is_commented
FROM duckdb_columns()
ANTI JOIN (SELECT database_name, schema_name, view_name AS table_name FROM duckdb_views())
    USING (database_name, schema_name, table_name)
WHERE database_name IN {{ zones }}
GROUP BY ALL
{% for zone, catalog in catalogs %}
UNION ALL
SELECT {{ zone }}, name, 'comment', '', true
FROM postgres_query({{ catalog }}, '
    SELECT DISTINCT schema_name || ''.'' || table_name AS name
    FROM ducklake_tag
    JOIN ducklake_table ON table_id = object_id AND ducklake_table.end_snapshot IS NULL
    JOIN ducklake_schema USING (schema_id)
    WHERE ducklake_tag.end_snapshot IS NULL
')
{% endfor %}
{% else %}
SELECT database_name AS zone, schema_name || '.' || table_name AS name, 'table' AS kind, sql AS definition,
    comment IS NOT NULL OR cardinality(tags) > 0 AS is_commented
FROM duckdb_tables()
WHERE database_name IN {{ zones }}
{% endif %}
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
