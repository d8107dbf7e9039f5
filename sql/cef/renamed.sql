SELECT
    {% for name, source in columns.items() %}
    {{ source | id }}{% if not typed %}::VARCHAR{% endif %} AS {{ name | id }},
    {% endfor %}
FROM ({{ relation }})
