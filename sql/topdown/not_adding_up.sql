-- The number of cells of a level that differ from the sum over the places below; cells of unknown places count, too.
WITH
summed AS (
    SELECT estimated.histogram, place.parent AS number, estimated.cell, sum(estimated.count) AS count
    FROM {{ below }} AS estimated
    LEFT JOIN (SELECT number, parent FROM {{ spine }} WHERE depth = $depth + 1) AS place USING (number)
    GROUP BY ALL
),
estimated AS (
    SELECT histogram, number, cell, sum(count) AS count FROM {{ above }} GROUP BY ALL
)
SELECT count(*)
FROM estimated FULL JOIN summed USING (histogram, number, cell)
WHERE estimated.count IS DISTINCT FROM summed.count
