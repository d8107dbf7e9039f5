SELECT coalesce(sum(count), 0)::BIGINT
FROM {{ histograms }} AS counted
WHERE histogram = $histogram AND list_contains($impossible::BIGINT[], cell)
