-- What zones carry: tables with their definitions, views without, indexes, sequences and types. Of lakes, DuckDB would
-- fetch the statistics of each table with its definition, so that columns and comments are read instead: each definition
-- of a column once, with one of the tables that have it, because there are few, however many tables there are; and the
-- names of all tables together.
{% if catalogs %}
WITH listed AS MATERIALIZED (
    SELECT database_name, schema_name || '.' || table_name AS name, column_name, data_type, column_default, is_nullable
    FROM duckdb_columns()
    ANTI JOIN (SELECT database_name, schema_name, view_name AS table_name FROM duckdb_views())
        USING (database_name, schema_name, table_name)
    WHERE database_name IN {{ zones }}
)
SELECT database_name AS zone, min(name) AS name, 'column' AS kind,
    '"' || replace(column_name, '"', '""') || '" ' || data_type || coalesce(' DEFAULT(' || column_default || ')', '') || if(is_nullable, '', ' NOT NULL') AS definition,
    false AS is_commented
FROM listed
GROUP BY database_name, column_name, data_type, column_default, is_nullable
UNION ALL
SELECT database_name, string_agg(DISTINCT name, chr(10)), 'names', '', false
FROM listed
GROUP BY database_name
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
