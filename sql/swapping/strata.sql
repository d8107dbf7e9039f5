-- The number of strata and b, from the margins alone: a stratum contains two distinct records if it has at least two
-- holding values or at least two swap values.
SELECT
    count(*) AS strata,
    coalesce(max(records) FILTER (WHERE holding_values > 1 OR swap_values > 1), 0) AS largest
FROM (
    SELECT {% if match %}{{ match | ids }}, {% endif %}sum(count) AS records, count(*) AS holding_values
    FROM {{ holding }}
    GROUP BY ALL
) AS held
JOIN (
    SELECT {% if match %}{{ match | ids }}, {% endif %}count(*) AS swap_values
    FROM {{ swapping }}
    GROUP BY ALL
) AS swapped ON {{ match | same("held", "swapped") }}
