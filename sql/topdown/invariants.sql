-- The declared invariants and no others: a row for every place of each invariant's level, zeros included.
WITH
unit AS (
    SELECT place.*, coalesce(members.persons, 0) AS persons
    FROM ({% include "topdown/placed_units.sql" %}
    ) AS place
    LEFT JOIN (SELECT MAFID, count(*) AS persons FROM {{ persons }} GROUP BY MAFID) AS members USING (MAFID)
),
counted AS (
    {% for invariant, depth in held %}
    SELECT
        $names[{{ loop.index }}] AS invariant,
        {{ depth }} AS depth,
        ancestry.number,
    {% if invariant == "group_quarters" %}
        types.category,
        count(*) FILTER (WHERE GQTYPE::BIGINT = types.category AND persons > 0) AS count
    {% else %}
        0 AS category,
        {% if invariant == "population" %}sum(persons)::BIGINT{% else %}count(*) FILTER (WHERE RTYPE = '2'){% endif %} AS count
    {% endif %}
    FROM unit
    JOIN {{ ancestry }} AS ancestry ON ancestry.finest = unit.number AND ancestry.depth = {{ depth }}
    {% if invariant == "group_quarters" %}
    CROSS JOIN range(1, {{ types }}) AS types(category)
    {% endif %}
    GROUP BY ALL
    {% if not loop.last %}
    UNION ALL
    {% endif %}
    {% endfor %}
)
SELECT counted.invariant, place.level, counted.number, place.geoid, counted.category::BIGINT AS category, counted.count
FROM counted
JOIN {{ spine }} AS place ON place.depth = counted.depth AND place.number = counted.number
ORDER BY counted.invariant, counted.number, counted.category
