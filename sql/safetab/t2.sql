-- Sex by age of the groups that are published in detail, each sex with its sum over all ages.
WITH cells AS (
    SELECT region_id, region_type, iteration_code, of.*, count
    FROM {{ measurements }} AS measured
    JOIN {{ cells }} AS of USING (detail, cell)
)
SELECT
    region_id AS "REGION_ID",
    region_type AS "REGION_TYPE",
    iteration_code AS "ITERATION_CODE",
    coalesce(age_start, '*') AS "AGESTART",
    coalesce(age_end, '*') AS "AGEEND",
    sex AS "SEX",
    sum(count)::BIGINT AS "COUNT"
FROM cells
GROUP BY GROUPING SETS (
    (region_id, region_type, iteration_code, sex, age_start, age_end),
    (region_id, region_type, iteration_code, sex)
)
