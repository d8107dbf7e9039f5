SELECT {% if persons %}holding_code AS household_type, {% endif %}{{ columns | ids }}, count
FROM {{ swapped }}
ORDER BY ALL
