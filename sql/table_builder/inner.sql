-- The cells of the inner table that occur, each with its number and what its records add up to. A domain's table has
-- the categories of a variable, each with what it adds to the number of a cell. A record outside the domains has no
-- cell. With keys of records, each cell has the sum of their keys modulo 2^128. The sums are exact: a sum of UBIGINT is a
-- HUGEINT, which holds the sums of 2^63 records. What the lower halves carry is added to the upper ones.
SELECT (
    {% for domain in domains %}
    d{{ loop.index }}.step{% if not loop.last %} +{% endif %}

    {% endfor %}
)::BIGINT AS cell, counted.count
    {% if keys %}
    , ((upper_sum + lower_sum // 18446744073709551616) % 18446744073709551616)::UBIGINT AS key_upper
    , (lower_sum % 18446744073709551616)::UBIGINT AS key_lower
    {% endif %}
FROM (
    SELECT
        {{ columns | ids }},
        {% if keys %}
        sum(key_upper) AS upper_sum, sum(key_lower) AS lower_sum,
        {% endif %}
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
    {% if keys %}
    JOIN {{ keys }} USING ({{ record | id }})
    {% endif %}
    GROUP BY {{ columns | ids }}
) AS counted
{% for domain in domains %}
LEFT JOIN {{ domain.table }} AS d{{ loop.index }} ON counted.{{ domain.column | id }} IS NOT DISTINCT FROM d{{ loop.index }}.category
{% endfor %}
