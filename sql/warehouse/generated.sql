-- Tables with a column that is generated or has a default: Stirred writes none. Their text says so outside of quotes.
-- DuckLake says of every column that its default is NULL.
SELECT database_name AS zone, schema_name || '.' || table_name AS name
FROM duckdb_tables()
WHERE database_name IN $zones
    AND regexp_matches(
        replace(regexp_replace(sql, '"[^"]*"|''[^'']*''', '', 'g'), 'DEFAULT(NULL)', ''),
        '\b(GENERATED ALWAYS|DEFAULT)\b'
    )
