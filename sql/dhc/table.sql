-- A table of all places, with their names.
WITH named AS (
    -- A code that stands for places of two levels would give one of them the name of the other.
    SELECT names.geoid, any_value(names.name) AS name
    FROM {{ names }} AS names
    JOIN {{ spine }} AS place ON place.geoid = names.geoid
    GROUP BY names.geoid
    HAVING count(*) = 1
)
SELECT place.depth, place.level, place.geoid, named.name, counted.* EXCLUDE (depth, number)
FROM {{ spine }} AS place
JOIN {{ counted }} AS counted ON counted.depth = place.depth AND counted.number = place.number
LEFT JOIN named ON named.geoid = place.geoid
ORDER BY place.depth, place.number
