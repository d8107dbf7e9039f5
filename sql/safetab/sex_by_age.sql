-- Sex by age in words, of the groups that are published in detail, each sex with its sum over all ages.
SELECT
    region_type,
    region_id,
    coalesce(names.name, region_type || ' ' || region_id) AS region,
    level::INTEGER AS level,
    iteration_code,
    iterations.name AS iteration,
    sex,
    age,
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
        detail,
        of.sex,
        coalesce(of.age, 'All ages') AS age,
        if(grouping(of.age) = 1, 'sex', 'cell') AS quantity,
        sum(count)::BIGINT AS estimate
    FROM {{ measurements }} AS measured
    JOIN {{ cells }} AS of USING (detail, cell)
    GROUP BY GROUPING SETS (
        (region_type, region_id, level, iteration_code, detail, of.sex, of.age),
        (region_type, region_id, level, iteration_code, detail, of.sex)
    )
)
JOIN {{ iterations }} AS iterations USING (iteration_code)
JOIN {{ errors }} AS errors USING (region_type, level, detail, quantity)
LEFT JOIN {{ names }} AS names USING (region_type, region_id)
