-- The number of cells of places whose records differ from the estimate, in their number or in where they stand: records
-- are numbered by place and cell.
SELECT count(*)
FROM (
    SELECT
        place.number, {{ attributes | ids("record") }},
        count(*) AS count, min(record.record) AS first, max(record.record) AS last
    FROM {{ records }} AS record
    LEFT JOIN {{ spine }} AS place ON place.level = $finest AND place.geoid = record.geoid
    GROUP BY ALL
) AS recorded
FULL JOIN (
    SELECT
        estimated.number, {{ attributes | ids("code") }},
        estimated.count, sum(estimated.count) OVER (ORDER BY number, cell ROWS UNBOUNDED PRECEDING) AS last
    FROM {{ estimates }} AS estimated
    LEFT JOIN {{ codes }} AS code USING (cell)
    WHERE estimated.histogram = $histogram
) AS estimated ON {{ (["number"] + attributes) | same("recorded", "estimated") }}
WHERE recorded.count IS DISTINCT FROM estimated.count
    OR recorded.first IS DISTINCT FROM estimated.last - estimated.count + 1
    OR recorded.last IS DISTINCT FROM estimated.last
