-- The errors of a redistricting table: a row for each place and cell. Cells that are empty in the table and in every
-- replicate are not in `errors`; figures with decimals are there in hundredths.
SELECT
    place.level,
    place.geoid,
    cells.cell,
    coalesce(errors.estimate, 0) AS estimate,
    (coalesce(errors.standard_error, 0) / 100)::DECIMAL(18, 2) AS standard_error,
    coalesce(errors.lower, 0) AS lower,
    coalesce(errors.upper, 0) AS upper,
    (coalesce(errors.bias, 0) / 100)::DECIMAL(18, 2) AS bias
FROM {{ spine }} AS place
CROSS JOIN {{ cells }} AS cells
LEFT JOIN {{ errors }} AS errors
    ON errors.depth = place.depth AND errors.number = place.number AND errors.position = cells.position
ORDER BY place.depth, place.number, cells.position
