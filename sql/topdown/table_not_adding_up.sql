-- The number of places for which a table differs from the sum over the places in them.
WITH placed AS (
    SELECT place.number, place.parent, stored.*
    FROM {{ table }} AS stored
    JOIN {{ spine }} AS place ON place.level = stored.level AND place.geoid = stored.geoid
)
SELECT count(*)
FROM placed AS whole
JOIN (
    SELECT
        depth - 1 AS depth,
        parent AS number
        {% for column in columns %}
        , sum({{ column | id }}) AS {{ column | id }}
        {% endfor %}
    FROM placed
    GROUP BY depth, parent
) AS parts ON parts.depth = whole.depth AND parts.number = whole.number
WHERE NOT ({{ columns | same("whole", "parts") }})
