-- The households of a tract, in an order that follows from their values: block, block group, unit, persons and minors,
-- of whom no more than a number count, tenure, type, and the householder's race and ethnicity as numbers from 0.
SELECT
    dense_rank() OVER (ORDER BY TABBLKGRPCE, TABBLK) - 1 AS block,
    dense_rank() OVER (ORDER BY TABBLKGRPCE) - 1 AS block_group,
    row_number() OVER (ORDER BY MAFID) - 1 AS unit,
    least(members.persons, $most) AS persons,
    least(members.minors, $most) AS minors,
    CASE TEN WHEN '1' THEN 0 WHEN '2' THEN 1 ELSE 2 END AS tenure,
    CASE
        WHEN HHT2 = '01' THEN 0
        WHEN HHT2 = '02' THEN 1
        WHEN HHT2 = '03' THEN 2
        WHEN HHT2 = '04' THEN CASE WHEN HHT IN ('2', '3') THEN 3 ELSE 4 END
        WHEN HHT2 = '09' THEN 5
        WHEN HHT2 IN ('10', '11', '12') THEN HHT2::BIGINT - 4
        WHEN HHT2 = '05' THEN 9
        ELSE HHT2::BIGINT + 4
    END AS type,
    least(HHRACE::BIGINT - 1, 6) AS race,
    HHSPAN::BIGINT - 1 AS hispanic
FROM {{ units }}
JOIN (
    SELECT MAFID, count(*) AS persons, count(*) FILTER (QAGE < 18) AS minors
    FROM {{ persons }}
    GROUP BY MAFID
) AS members USING (MAFID)
WHERE TABBLKST = $state AND TABBLKCOU = $county AND TABTRACTCE = $tract AND RTYPE = '2' AND HHT <> '0'
ORDER BY ALL
