-- A relation with its columns as text, the form that every source has.
SELECT
    {% for name, source in columns.items() %}
    {{ source | id }}::VARCHAR AS {{ name | id }},
    {% endfor %}
FROM ({{ relation }})
