SELECT (row_number() OVER (ORDER BY {{ key | ids }}) - 1)::BIGINT AS cell_number, * FROM {{ product }}
