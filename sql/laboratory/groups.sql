-- The persons of a tract, in an order that follows from their values: block, block group, unit, age, sex as a number
-- from 0, and the number of the group that all race codes of the person are in; NULL if there is none.
WITH
person AS (
    SELECT
        TABBLKGRPCE,
        TABBLK,
        MAFID,
        RTYPE,
        QAGE,
        QSEX,
        list_sort(list_distinct(list_filter([{{ columns | ids }}], lambda code: code <> 'Null'))) AS codes
    FROM {{ units }}
    JOIN {{ persons }} USING (MAFID)
    WHERE TABBLKST = $state AND TABBLKCOU = $county AND TABTRACTCE = $tract
),
of_codes AS (
    SELECT codes, min(number) AS category
    FROM (SELECT DISTINCT codes FROM person), unnest(codes) AS each(code)
    LEFT JOIN {{ groups }} USING (code)
    GROUP BY codes
    HAVING count(number) = len(codes) AND min(number) = max(number)
)
SELECT
    dense_rank() OVER (ORDER BY TABBLKGRPCE, TABBLK) - 1 AS block,
    dense_rank() OVER (ORDER BY TABBLKGRPCE) - 1 AS block_group,
    dense_rank() OVER (ORDER BY MAFID) - 1 AS unit,
    RTYPE = '4' AS quarters,
    QAGE AS age,
    QSEX::BIGINT - 1 AS sex,
    category
FROM person
LEFT JOIN of_codes USING (codes)
ORDER BY ALL
