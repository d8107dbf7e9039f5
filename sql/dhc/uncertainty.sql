-- The errors of a table: a row for each place and cell that is not 0 in the table and in every replicate. Standard errors
-- and biases are in hundredths; the figures of median ages are all in tenths.
SELECT
    place.level,
    place.geoid,
    cells.cell,
    {% if median %}
    (errors.estimate / 10)::DECIMAL(4, 1) AS estimate,
    (errors.standard_error / 1000)::DECIMAL(18, 2) AS standard_error,
    (errors.lower / 10)::DECIMAL(4, 1) AS lower,
    (errors.upper / 10)::DECIMAL(4, 1) AS upper,
    (errors.bias / 1000)::DECIMAL(18, 2) AS bias
    {% else %}
    errors.estimate,
    (errors.standard_error / 100)::DECIMAL(18, 2) AS standard_error,
    errors.lower,
    errors.upper,
    (errors.bias / 100)::DECIMAL(18, 2) AS bias
    {% endif %}
FROM {{ errors }} AS errors
JOIN {{ spine }} AS place ON place.depth = errors.depth AND place.number = errors.number
JOIN {{ cells }} AS cells ON cells.position = errors.position
WHERE errors.of_table = $of_table AND errors.run >= $first_run AND errors.run < $end
ORDER BY place.depth, place.number, cells.position
