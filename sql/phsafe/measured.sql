-- A file of measurements. Each of its cells is the sum of one or more measured cells of a run. Variances add up because
-- the noise is independent. A file of exact counts has no columns for noise and variance.
SELECT
    region_id AS REGION_ID,
    region_type AS REGION_TYPE,
    iteration_code AS ITERATION_CODE,
    parts.cell AS {{ cell_column | id }},
    sum(measurements.count)::BIGINT AS COUNT
    {% if noisy %}
    , any_value(noise_distribution) AS NOISE_DISTRIBUTION
    , sum(variance)::DECIMAL(38, 18) AS VARIANCE
    {% endif %}
FROM {{ measurements }} AS measurements
JOIN {{ parts }} AS parts ON measurements.data_cell = parts.data_cell
WHERE measurements.run = $run
GROUP BY ALL
