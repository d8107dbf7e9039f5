-- The number of swap values in each stratum.
SELECT count(*) AS swap_values
FROM {{ swapping }}
GROUP BY stratum
ORDER BY stratum
