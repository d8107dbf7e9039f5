-- The number of records of every place of every level, by cell of their histogram. Empty cells are left out, and so are
-- records with a code that does not exist. In the order of the places, so that those of a piece are found quickly.
SELECT ancestry.depth, ancestry.number, code.cell, sum(counted.count)::BIGINT AS count
FROM (
    SELECT geoid, {{ attributes | ids }}, count(*) AS count
    FROM {{ records }}
    GROUP BY ALL
) AS counted
JOIN {{ codes }} AS code ON {{ attributes | same("counted", "code") }}
JOIN {{ spine }} AS place ON place.level = $finest AND place.geoid = counted.geoid
JOIN {{ ancestry }} AS ancestry ON ancestry.finest = place.number
GROUP BY ancestry.depth, ancestry.number, code.cell
ORDER BY ancestry.depth, ancestry.number
