-- The columns of places in the tables, in the order of levels and numbers.
WITH named AS (
    {% include "topdown/named.sql" %}
)
SELECT place.depth, place.level, place.geoid, named.name
FROM {{ spine }} AS place
LEFT JOIN named ON named.geoid = place.geoid
ORDER BY place.depth, place.number
