-- The cells of the inner table that occur, each with its number and what its records add up to. A domain's table has
-- the categories of a variable, each with what it adds to the number of a cell. A record outside the domains has no
-- cell.
SELECT (
    {% for domain in domains %}
    d{{ loop.index }}.step{% if not loop.last %} +{% endif %}

    {% endfor %}
)::BIGINT AS cell, counted.count
FROM (
    SELECT {{ columns | ids }}, 
        {% if number %}
        coalesce(sum({% include "table_builder/steps.sql" %}), 0)::BIGINT AS count
        {% else %}
        count(*) AS count
        {% endif %}
    FROM (
        {% if unit %}
        SELECT {{ own | ids("persons") }}{% if own %}, {% endif %}{{ from_unit | ids("units") }}
        FROM {{ persons }} AS persons
        JOIN {{ units }} AS units ON persons.{{ unit | id }} = units.{{ key | id }}
        {% else %}
        FROM {{ records }}
        {% endif %}
    )
    GROUP BY {{ columns | ids }}
) AS counted
{% for domain in domains %}
LEFT JOIN {{ domain.table }} AS d{{ loop.index }} ON counted.{{ domain.column | id }} IS NOT DISTINCT FROM d{{ loop.index }}.category
{% endfor %}
