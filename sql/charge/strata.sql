-- A stratum holds two distinct records if it has two holding values or two swap values.
SELECT
    count(*) AS strata,
    coalesce(max(records) FILTER (WHERE holding_values > 1 OR swap_values > 1), 0) AS largest
FROM (
    SELECT stratum, sum(count) AS records, count(*) AS holding_values FROM {{ holding }} GROUP BY stratum
) AS held
JOIN (
    SELECT stratum, count(*) AS swap_values FROM {{ swapping }} GROUP BY stratum
) AS swapped USING (stratum)
