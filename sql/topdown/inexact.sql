-- The number of places of a level in which the total of a histogram differs from an invariant.
WITH
exact AS (
    {% include "topdown/invariant_at_level.sql" %}
),
estimated AS (
    SELECT number, sum(count) AS count FROM {{ estimates }} WHERE histogram = $histogram GROUP BY number
)
SELECT count(*)
FROM (SELECT number FROM {{ spine }} WHERE depth = $depth) AS place
LEFT JOIN exact USING (number)
LEFT JOIN estimated USING (number)
WHERE exact.count IS DISTINCT FROM coalesce(estimated.count, 0)
