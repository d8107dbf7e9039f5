-- The exact totals of the groups of a region type and level that have any, by number of region and place of iteration.
SELECT regions.number, iterations.place, sum(counts.count)::BIGINT AS total
FROM {{ counts }} AS counts
JOIN {{ regions }} AS regions USING (region_type, region_id)
JOIN {{ iterations }} AS iterations USING (iteration_code)
WHERE counts.region_type = $region_type AND counts.level = $level
GROUP BY ALL
