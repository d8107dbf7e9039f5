-- The declared invariants and no others: a row for every place of each invariant's level, zeros included.
WITH
at_finest AS (
    SELECT
        CASE histogram WHEN 'persons' THEN 'population' WHEN 'units' THEN 'housing_units' END AS invariant,
        number,
        0 AS category,
        sum(count) AS count
    FROM {{ histograms }}
    GROUP BY ALL
    UNION ALL
    -- Those that have a person.
    SELECT 'group_quarters', number, GQTYPE::BIGINT, count(*)
    FROM (
        {% include "topdown/placed_units.sql" %}
    )
    WHERE GQTYPE::BIGINT > 0 AND FINAL_POP > 0
    GROUP BY ALL
),
counted AS (
    SELECT declared.invariant, ancestry.number, at_finest.category, sum(at_finest.count)::BIGINT AS count
    FROM at_finest
    JOIN {{ declared }} AS declared ON declared.invariant = at_finest.invariant
    JOIN {{ ancestry }} AS ancestry ON ancestry.finest = at_finest.number AND ancestry.depth = declared.depth
    GROUP BY ALL
),
due AS (
    SELECT declared.invariant, place.level, place.number, place.geoid, unnest(declared.categories) AS category
    FROM {{ declared }} AS declared
    JOIN {{ spine }} AS place ON place.depth = declared.depth
)
SELECT due.invariant, due.level, due.number, due.geoid, due.category, coalesce(counted.count, 0) AS count
FROM due
LEFT JOIN counted USING (invariant, number, category)
ORDER BY due.invariant, due.number, due.category
