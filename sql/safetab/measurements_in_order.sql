-- The stored measurements of a region type and level, by codes as numbers; NULL for no code of a declared group.
SELECT
    regions.region_id::BIGINT AS region,
    iterations.iteration_code::BIGINT AS iteration,
    measured.detail::BIGINT AS detail,
    measured.cell::BIGINT AS cell,
    measured.count::BIGINT AS count
FROM {{ measurements }} AS measured
LEFT JOIN {{ regions }} AS regions USING (region_type, region_id)
LEFT JOIN {{ iterations }} AS iterations USING (iteration_code)
WHERE measured.region_type = $region_type AND measured.level = $level
ORDER BY region, iteration, cell
