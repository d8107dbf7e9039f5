-- The errors of a redistricting table: a row for each place and cell. Cells that are empty in the table and in every
-- replicate are not in `found`; figures with decimals are there in hundredths.
SELECT
    place.level,
    place.geoid,
    cells.cell,
    coalesce(found.estimate, 0) AS estimate,
    (coalesce(found.standard_error, 0) / 100)::DECIMAL(18, 2) AS standard_error,
    coalesce(found.lower, 0) AS lower,
    coalesce(found.upper, 0) AS upper,
    (coalesce(found.bias, 0) / 100)::DECIMAL(18, 2) AS bias
FROM {{ spine }} AS place
CROSS JOIN {{ cells }} AS cells
LEFT JOIN {{ found }} AS found
    ON found.depth = place.depth AND found.number = place.number AND found.position = cells.position
ORDER BY place.depth, place.number, cells.position
