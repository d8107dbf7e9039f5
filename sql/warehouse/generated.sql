-- Tables with a column that is generated or has a default: Stirred writes none. Their text says so outside of quotes.
SELECT database_name AS zone, schema_name || '.' || table_name AS name
FROM duckdb_tables()
WHERE database_name IN $zones
    AND regexp_matches(regexp_replace(sql, '"[^"]*"|''[^'']*''', '', 'g'), '\b(GENERATED ALWAYS|DEFAULT)\b')
