-- The columns of measurements, without rows: of persons by the cells of details, of households by those of tables.
SELECT
    NULL::VARCHAR AS region_type,
    NULL::UTINYINT AS level,
    NULL::VARCHAR AS region_id,
    NULL::VARCHAR AS iteration_code,
    {% if households %}
    NULL::VARCHAR AS table_name,
    NULL::TINYINT AS data_cell,
    {% else %}
    NULL::TINYINT AS detail,
    NULL::TINYINT AS cell,
    {% endif %}
    NULL::BIGINT AS count
WHERE false
