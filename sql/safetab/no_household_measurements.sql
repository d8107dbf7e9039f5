-- The columns of the measurements of households, without rows.
SELECT
    NULL::VARCHAR AS region_type,
    NULL::UTINYINT AS level,
    NULL::VARCHAR AS region_id,
    NULL::VARCHAR AS iteration_code,
    NULL::VARCHAR AS table_name,
    NULL::TINYINT AS data_cell,
    NULL::BIGINT AS count
WHERE false
