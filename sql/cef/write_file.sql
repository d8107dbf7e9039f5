COPY (
    SELECT
        {% for name, source in columns.items() %}
        {{ name | id }} AS {{ source | id }},
        {% endfor %}
    FROM {{ rows }}
    ORDER BY ALL
) TO {{ path }} (FORMAT {{ format }})
