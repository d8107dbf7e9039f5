-- The strata by their number of records and by the sum of the squared numbers of records with the same swap values.
SELECT records, squares, count(*)::BIGINT AS strata
FROM (
    SELECT sum(count)::BIGINT AS records, sum(count * count)::BIGINT AS squares
    FROM {{ swapping }}
    GROUP BY stratum
)
GROUP BY records, squares
ORDER BY records, squares
