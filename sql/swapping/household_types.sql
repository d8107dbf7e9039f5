SELECT holding_code AS household_type, {{ columns | ids }}, persons
FROM {{ persons }}
ORDER BY ALL
