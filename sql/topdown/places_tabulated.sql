-- A piece of the places of a table, in order, with their names.
WITH named AS (
    {% include "topdown/named.sql" %}
)
SELECT place.depth, place.level, place.geoid, named.name
FROM {{ places }} AS place
LEFT JOIN named ON named.geoid = place.geoid
WHERE {% with place = "place" %}{% include "topdown/of_piece.sql" %}{% endwith %}
ORDER BY place.depth, place.number
