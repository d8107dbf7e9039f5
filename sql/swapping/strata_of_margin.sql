-- The strata of a margin of match and swap variables, with their numbers of records and of swap values, in order.
SELECT stratum, {% if match %}{{ match | ids }}, {% endif %}sum(count)::BIGINT AS count, count(*) AS swap_values
FROM {{ swapping }}
GROUP BY ALL
ORDER BY stratum
