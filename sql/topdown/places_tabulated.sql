-- A piece of the places of a table, in order, with their names.
WITH
-- A code that stands for places of two levels would give one of them the name of the other.
named AS (
    SELECT names.geoid, any_value(names.name) AS name
    FROM {{ names }} AS names
    JOIN {{ spine }} AS place ON place.geoid = names.geoid
    GROUP BY names.geoid
    HAVING count(*) = 1
)
SELECT place.depth, place.level, place.geoid, named.name
FROM {{ places }} AS place
LEFT JOIN named ON named.geoid = place.geoid
WHERE {% with place = "place" %}{% include "topdown/of_piece.sql" %}{% endwith %}
ORDER BY place.depth, place.number
