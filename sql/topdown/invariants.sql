-- The declared invariants and no others: a row for every place of each invariant's level, zeros included.
WITH
unit AS (
    {% include "topdown/placed_units.sql" %}
),
counted AS (
    {% for invariant, depth in declared %}
    SELECT $names[{{ loop.index }}] AS invariant, ancestry.depth, ancestry.number, at_finest.category, sum(at_finest.count)::BIGINT AS count
    FROM (
        {% if invariant == "population" %}
        SELECT unit.number, 0 AS category, count(*) AS count FROM {{ persons }} JOIN unit USING (MAFID) GROUP BY unit.number
        {% elif invariant == "group_quarters" %}
        -- Those that have a person.
        SELECT number, GQTYPE::BIGINT AS category, count(*) AS count
        FROM unit
        WHERE GQTYPE::BIGINT > 0 AND MAFID IN (SELECT MAFID FROM {{ persons }})
        GROUP BY ALL
        {% else %}
        SELECT number, 0 AS category, count(*) AS count FROM unit WHERE RTYPE = '2' GROUP BY number
        {% endif %}
    ) AS at_finest
    JOIN {{ ancestry }} AS ancestry ON ancestry.finest = at_finest.number AND ancestry.depth = {{ depth }}
    GROUP BY ALL
    {% if not loop.last %}
    UNION ALL
    {% endif %}
    {% endfor %}
),
due AS (
    {% for invariant, depth in declared %}
    SELECT $names[{{ loop.index }}] AS invariant, place.depth, place.level, place.number, place.geoid, types.category
    FROM {{ spine }} AS place
    CROSS JOIN range({% if invariant == "group_quarters" %}1, {{ types }}{% else %}0, 1{% endif %}) AS types(category)
    WHERE place.depth = {{ depth }}
    {% if not loop.last %}
    UNION ALL
    {% endif %}
    {% endfor %}
)
SELECT due.invariant, due.level, due.number, due.geoid, due.category, coalesce(counted.count, 0) AS count
FROM due
LEFT JOIN counted USING (invariant, depth, number, category)
ORDER BY due.invariant, due.number, due.category
