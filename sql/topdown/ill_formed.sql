-- The numbers of rows of estimates whose count is not positive, whose cell or place does not exist, and that repeat
-- another row's cell of a place.
SELECT
    count(*) FILTER (WHERE (estimated.count > 0) IS NOT TRUE),
    count(*) FILTER (WHERE schema.histogram IS NULL),
    count(*) FILTER (WHERE place.number IS NULL),
    count(*) - count(DISTINCT (estimated.histogram, estimated.number, estimated.cell))
FROM {{ estimates }} AS estimated
LEFT JOIN (SELECT number FROM {{ spine }} WHERE depth = $depth) AS place ON place.number = estimated.number
LEFT JOIN {{ schemas }} AS schema
    ON schema.histogram = estimated.histogram AND estimated.cell >= 0 AND estimated.cell < schema.cells
