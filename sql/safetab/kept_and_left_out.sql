-- Of a region type and level: groups far above the cut-off that are missing; empty groups of detail 0; and those of them
-- that were kept.
WITH exact AS (
    SELECT region_id, iteration_code, sum(count) AS total
    FROM {{ counts }}
    WHERE region_type = $region_type AND level = $level
    GROUP BY ALL
),
kept AS (
    SELECT DISTINCT region_id, iteration_code, detail
    FROM {{ measurements }}
    WHERE region_type = $region_type AND level = $level
),
kept_empty AS (
    SELECT detail FROM kept ANTI JOIN exact USING (region_id, iteration_code)
)
SELECT
    (SELECT count(*) FROM exact ANTI JOIN kept USING (region_id, iteration_code) WHERE total >= $least) AS missing,
    (SELECT count(*) FROM {{ regions }} WHERE region_type = $region_type) * $iterations
        - (SELECT count(*) FROM exact)
        - (SELECT count(*) FROM kept_empty WHERE detail > 0) AS empty,
    (SELECT count(*) FROM kept_empty WHERE detail = 0) AS kept
