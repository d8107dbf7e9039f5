-- The groups whose total in T1 is not the sum of their cells in T2, or not the sum of their sexes.
SELECT count(*)
FROM {{ t1 }} AS t1
JOIN (
    SELECT
        "REGION_ID",
        "REGION_TYPE",
        "ITERATION_CODE",
        sum("COUNT") FILTER ("AGESTART" <> '*') AS of_cells,
        sum("COUNT") FILTER ("AGESTART" = '*') AS of_sexes
    FROM {{ t2 }}
    GROUP BY ALL
) AS t2 USING ("REGION_ID", "REGION_TYPE", "ITERATION_CODE")
WHERE t1."COUNT" IS DISTINCT FROM of_cells OR t1."COUNT" IS DISTINCT FROM of_sexes
