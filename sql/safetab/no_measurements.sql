-- The columns of the measurements of persons, without rows.
SELECT
    NULL::VARCHAR AS region_type,
    NULL::UTINYINT AS level,
    NULL::VARCHAR AS region_id,
    NULL::VARCHAR AS iteration_code,
    NULL::TINYINT AS detail,
    NULL::TINYINT AS cell,
    NULL::BIGINT AS count
WHERE false
