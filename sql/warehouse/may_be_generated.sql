-- Whether a table has the word of a generated column or of one with a default anywhere in its definition.
SELECT 1
FROM duckdb_tables()
WHERE database_name IN {{ zones }} AND (sql IS NULL OR sql ILIKE '%generated%' OR sql ILIKE '%default%')
LIMIT 1
