-- A product: counts by its columns, with empty cells if `zeros` is set, and with totals if any are declared. A row with a
-- total over a column has no value in it, and says so in a column of its own. Of places that lie in each other, the
-- combinations that occur are listed.
WITH cells AS (
    SELECT {{ columns | ids }}, sum(count)::BIGINT AS count FROM {{ records }} GROUP BY ALL
),
filled AS (
    {% if zeros %}
    SELECT {{ columns | ids("frame") }}, coalesce(cells.count, 0) AS count
    FROM (
        SELECT *
        FROM {% for together in listed %}{% if not loop.first %} CROSS JOIN {% endif %}
        (SELECT DISTINCT {{ together | ids }} FROM cells)
        {% endfor %}

    ) AS frame
    LEFT JOIN cells ON {{ columns | same("frame", "cells") }}
    {% else %}
    FROM cells
    {% endif %}
)
{% if totals %}
SELECT
    {{ columns | ids }},
    {% for column, flag in totals.items() %}
    grouping({{ column | id }}) = 1 AS {{ flag | id }},
    {% endfor %}
    sum(count)::BIGINT AS count
FROM filled
GROUP BY {% for column in columns if column not in totals %}{{ column | id }}, {% endfor %}CUBE ({{ totals | list | ids }})
{% else %}
SELECT {{ columns | ids }}, count
FROM filled
{% endif %}
ORDER BY ALL
