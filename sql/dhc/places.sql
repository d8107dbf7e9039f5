-- The columns of places in the tables, in the order of levels and numbers.
WITH named AS (
    -- A code that stands for places of two levels would give one of them the name of the other.
    SELECT names.geoid, any_value(names.name) AS name
    FROM {{ names }} AS names
    JOIN {{ spine }} AS place ON place.geoid = names.geoid
    GROUP BY names.geoid
    HAVING count(*) = 1
)
SELECT place.depth, place.level, place.geoid, named.name
FROM {{ spine }} AS place
LEFT JOIN named ON named.geoid = place.geoid
ORDER BY place.depth, place.number
