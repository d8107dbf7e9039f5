-- The counts of one histogram of a replicate: the cells of the finest level that are not zero.
SELECT number, cell, count
FROM {{ replicates }}
WHERE replicate = $replicate AND histogram = $histogram
ORDER BY number, cell
