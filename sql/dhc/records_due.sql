-- The numbers of persons' and of units' records that the estimates have.
SELECT
    coalesce(sum(count) FILTER (WHERE histogram = 'persons'), 0),
    coalesce(sum(count) FILTER (WHERE histogram = 'households' OR (histogram = 'units' AND cell > 3)), 0)
FROM {{ estimates }}
WHERE level = $finest
