-- How many persons or units are counted in cells that no record can be in.
SELECT coalesce(sum(count), 0)::BIGINT
FROM {{ histograms }} AS counted
WHERE histogram = $histogram AND list_contains($impossible::BIGINT[], cell)
