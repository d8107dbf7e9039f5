-- The strata of a margin of match and swap variables, with their numbers of records.
SELECT stratum, {% if match %}{{ match | ids }}, {% endif %}sum(count)::BIGINT AS count
FROM {{ swapping }}
GROUP BY ALL
