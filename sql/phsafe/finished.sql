-- A finished table: its estimates, with regions, iterations and cells in words.
SELECT
    region_type,
    region_id,
    iteration_code,
    regions.name AS region,
    iterations.name AS iteration,
    cell,
    cells.label,
    estimate::{{ type }} AS estimate,
    standard_error,
    lower::{{ type }} AS lower,
    upper::{{ type }} AS upper,
{% if averages %}
    ((upper - lower) * 0.5)::DECIMAL(18, 3) AS half_width
{% else %}
    noise_margin
{% endif %}
FROM {{ estimates }} AS estimates
JOIN {{ regions }} AS regions USING (region_id)
JOIN {{ iterations }} AS iterations USING (iteration_code)
JOIN {{ cells }} AS cells USING (cell)
WHERE estimates.table_name = $table_name
