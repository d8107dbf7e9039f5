SELECT region_type, level, detail, count(DISTINCT (region_id, iteration_code)) AS groups
FROM {{ measurements }}
GROUP BY ALL
ORDER BY ALL
