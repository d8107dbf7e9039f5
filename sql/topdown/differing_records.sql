-- The number of cells of places in which the number of records differs from the estimate, compared by attribute codes.
SELECT count(*)
FROM (
    SELECT place.number, {{ attributes | ids("record") }}, count(*) AS count
    FROM {{ records }} AS record
    LEFT JOIN {{ spine }} AS place ON place.level = $finest AND place.geoid = record.geoid
    GROUP BY ALL
) AS recorded
FULL JOIN (
    SELECT estimated.number, {{ attributes | ids("code") }}, sum(estimated.count) AS count
    FROM {{ estimates }} AS estimated
    LEFT JOIN {{ codes }} AS code USING (cell)
    WHERE estimated.histogram = $histogram
    GROUP BY ALL
) AS estimated ON {{ (["number"] + attributes) | same("recorded", "estimated") }}
WHERE recorded.count IS DISTINCT FROM estimated.count
