-- The sum of the numbers of a column of texts, as floating-point numbers, without those beyond two ends.
SELECT sum(number)
FROM (SELECT TRY_CAST({{ name | id }} AS DOUBLE) AS number FROM {{ relation }})
WHERE number BETWEEN $low AND $high
