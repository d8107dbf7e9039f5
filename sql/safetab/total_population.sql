-- The total of every published group in words, with its standard error and 90% interval.
SELECT
    region_type,
    region_id,
    coalesce(names.name, region_type || ' ' || region_id) AS region,
    level::INTEGER AS level,
    iteration_code,
    iterations.name AS iteration,
    estimate,
    errors.standard_error,
    estimate - errors.half_width AS lower,
    estimate + errors.half_width AS upper
FROM (
    SELECT region_type, region_id, level, iteration_code, detail, sum(count)::BIGINT AS estimate
    FROM {{ measurements }}
    GROUP BY ALL
)
JOIN {{ iterations }} AS iterations USING (iteration_code)
JOIN {{ errors }} AS errors USING (region_type, level, detail)
LEFT JOIN {{ names }} AS names USING (region_type, region_id)
WHERE errors.quantity = 'total' AND errors.total_only = (errors.measures_totals_only AND iterations.total_only)
