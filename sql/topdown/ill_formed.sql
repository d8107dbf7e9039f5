-- The numbers of rows of estimates whose count is not positive, whose cell or place does not exist, and that repeat
-- another row's cell of a place.
WITH placed AS (
    SELECT
        estimated.*,
        place.number IS NOT NULL AS somewhere,
        schema.histogram IS NOT NULL AS cell_exists,
        row_number() OVER (PARTITION BY estimated.histogram, estimated.number, estimated.cell) AS time
    FROM {{ estimates }} AS estimated
    LEFT JOIN (SELECT number FROM {{ spine }} WHERE depth = $depth) AS place ON place.number = estimated.number
    LEFT JOIN {{ schemas }} AS schema
        ON schema.histogram = estimated.histogram AND estimated.cell >= 0 AND estimated.cell < schema.cells
)
SELECT
    count(*) FILTER (WHERE (count > 0) IS NOT TRUE),
    count(*) FILTER (WHERE NOT cell_exists),
    count(*) FILTER (WHERE NOT somewhere),
    count(*) FILTER (WHERE time > 1)
FROM placed
