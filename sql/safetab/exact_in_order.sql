-- The exact counts of the cells that are stored as measured, in the same order.
WITH measured AS (
    SELECT region_id, iteration_code, detail, cell FROM {{ measurements }}
    WHERE region_type = $region_type AND level = $level
),
exact AS (
    SELECT counts.region_id, counts.iteration_code, cells.cell, sum(counts.count) AS count
    FROM {{ counts }} AS counts
    JOIN (SELECT DISTINCT region_id, iteration_code, detail FROM measured) AS groups USING (region_id, iteration_code)
    JOIN {{ cells }} AS cells ON cells.detail = groups.detail AND cells.finest = counts.cell
    WHERE counts.region_type = $region_type AND counts.level = $level
    GROUP BY ALL
)
SELECT
    measured.region_id::BIGINT AS region,
    measured.iteration_code::BIGINT AS iteration,
    measured.detail::BIGINT AS detail,
    measured.cell::BIGINT AS cell,
    coalesce(exact.count, 0)::BIGINT AS count
FROM measured
LEFT JOIN exact USING (region_id, iteration_code, cell)
ORDER BY region, iteration, cell
