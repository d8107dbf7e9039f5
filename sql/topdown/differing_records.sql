-- Of the records numbered from `first` to `last`: their number, the number of their different numbers, and the number of
-- cells of places that differ from the estimate, in the number of their records or in where they stand. The records of
-- the places from `place` up to but excluding `to_place` belong there, in the order of places and cells.
SELECT
    (SELECT count(*) FROM {{ records }} WHERE record BETWEEN $first AND $last),
    (SELECT count(DISTINCT record) FROM {{ records }} WHERE record BETWEEN $first AND $last),
    count(*)
FROM (
    SELECT
        place.number, {{ attributes | ids("record") }},
        count(*) AS count, min(record.record) AS first, max(record.record) AS last
    FROM (SELECT * FROM {{ records }} WHERE record BETWEEN $first AND $last) AS record
    LEFT JOIN (
        SELECT number, geoid FROM {{ spine }} WHERE level = $finest AND number >= $place AND number < $to_place
    ) AS place ON place.geoid = record.geoid
    GROUP BY ALL
) AS recorded
FULL JOIN (
    SELECT
        estimated.number, {{ attributes | ids("code") }}, estimated.count,
        $first - 1 + sum(estimated.count) OVER (ORDER BY number, cell ROWS UNBOUNDED PRECEDING) AS last
    FROM {{ estimates }} AS estimated
    LEFT JOIN {{ codes }} AS code USING (cell)
    WHERE estimated.histogram = $histogram AND estimated.number >= $place AND estimated.number < $to_place
) AS estimated ON {{ (["number"] + attributes) | same("recorded", "estimated") }}
WHERE recorded.count IS DISTINCT FROM estimated.count
    OR recorded.first IS DISTINCT FROM estimated.last - estimated.count + 1
    OR recorded.last IS DISTINCT FROM estimated.last
