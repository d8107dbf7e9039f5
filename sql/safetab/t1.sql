-- The total of every published group: what was measured, or the sum of the group's cells.
SELECT
    region_id AS "REGION_ID",
    region_type AS "REGION_TYPE",
    iteration_code AS "ITERATION_CODE",
    sum(count)::BIGINT AS "COUNT"
FROM {{ measurements }}
GROUP BY region_id, region_type, iteration_code
