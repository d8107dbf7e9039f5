-- One estimated histogram of a level: the cells that are not zero.
SELECT number, cell, count
FROM {{ estimates }}
WHERE histogram = $histogram
ORDER BY number, cell
