SELECT region_type, level, t3, t4, count(*) AS groups FROM {{ table }} GROUP BY ALL ORDER BY ALL
