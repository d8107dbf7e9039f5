SELECT
    {% for name, source in columns.items() %}
    {{ source | id }}::VARCHAR AS {{ name | id }},
    {% endfor %}
FROM ({{ relation }})
