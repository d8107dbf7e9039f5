-- The tables of a family in words, with standard errors and 90% intervals.
SELECT
    region_type,
    region_id,
    coalesce(names.name, region_type || ' ' || region_id) AS region,
    level::INTEGER AS level,
    iteration_code,
    iterations.name AS iteration,
    cell,
    label,
    estimate,
    errors.standard_error,
    estimate - errors.half_width AS lower,
    estimate + errors.half_width AS upper
FROM (
    SELECT
        region_type,
        region_id,
        level,
        iteration_code,
        cells.cell,
        cells.label,
        cells.added,
        sum(count)::BIGINT AS estimate
    FROM {{ measurements }} AS measured
    JOIN {{ cells }} AS cells USING (table_name, data_cell)
    WHERE cells.family = $family
    GROUP BY ALL
)
JOIN {{ iterations }} AS iterations USING (iteration_code)
JOIN {{ errors }} AS errors USING (region_type, level, added)
LEFT JOIN {{ names }} AS names USING (region_type, region_id)
WHERE errors.family = $family
