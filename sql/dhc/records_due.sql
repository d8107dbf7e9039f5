-- The numbers of persons' and of units' records that are made of the estimates: none of a negative count.
SELECT
    coalesce(sum(greatest(count, 0)) FILTER (WHERE histogram = 'persons'), 0),
    coalesce(sum(greatest(count, 0)) FILTER (WHERE histogram = 'households' OR (histogram = 'units' AND cell > 3)), 0)
FROM {{ estimates }}
WHERE level = $finest
