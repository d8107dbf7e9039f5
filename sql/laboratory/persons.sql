-- The persons of a tract or a county, in an order that follows from their values: block, block group (its code is the
-- first digit of the block's), tract, unit, age, race and ethnicity as numbers from 0, and the sex, 0 if the records
-- have none.
SELECT
    dense_rank() OVER (ORDER BY TABTRACTCE, TABBLK) - 1 AS block,
    dense_rank() OVER (ORDER BY TABTRACTCE, left(TABBLK, 1)) - 1 AS block_group,
    dense_rank() OVER (ORDER BY TABTRACTCE) - 1 AS tract,
    dense_rank() OVER (ORDER BY MAFID) - 1 AS unit,
    RTYPE = '4' AS quarters,
    QAGE AS age,
    CENRACE::BIGINT - 1 AS race,
    CENHISP::BIGINT - 1 AS hispanic,
    {% if sex %}QSEX::BIGINT - 1{% else %}0{% endif %} AS sex
FROM {{ units }}
JOIN {{ persons }} USING (MAFID)
WHERE TABBLKST = $state AND TABBLKCOU = $county{% if of_tract %} AND TABTRACTCE = $tract{% endif %}

ORDER BY ALL
