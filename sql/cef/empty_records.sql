-- The number of records that have no value in any column.
SELECT count(*) FILTER (WHERE coalesce({{ columns | ids }}) IS NULL) FROM {{ relation }}
