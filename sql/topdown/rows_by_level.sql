-- The number of rows of each level, which are read to be counted: what the table says of itself can be forged.
SELECT level, count(*)
FROM {{ measurements }}
GROUP BY level
