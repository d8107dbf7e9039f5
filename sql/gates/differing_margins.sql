-- The number of combinations of values, compared as text, whose counts differ between two tables. No other column has the
-- name count.
SELECT count(*)
FROM (
    SELECT {% for column in columns %}{{ column | id }}::VARCHAR AS {{ column | id }}, {% endfor %}
    sum(count) AS count
    FROM {{ first }}
    {% if totals %}
    WHERE {% for flag in totals %}{% if not loop.first %} AND {% endif %}NOT {{ flag | id }}{% endfor %}
    {% endif %}

    GROUP BY ALL
    HAVING sum(count) <> 0
) AS one
FULL JOIN (
    SELECT {% for column in columns %}{{ column | id }}::VARCHAR AS {{ column | id }}, {% endfor %}
    sum(count) AS count
    FROM {{ second }}
    GROUP BY ALL
) AS other ON {{ columns | same("one", "other") }}
WHERE one.count IS DISTINCT FROM other.count
