-- The persons of a tract or a county, in an order that follows from their values: block, block group, tract, unit,
-- whether it is group quarters, or the type of these, age, race and ethnicity as numbers from 0, the sex, 0 if the
-- records have none, and the vacant housing units of the block.
SELECT
    dense_rank() OVER (ORDER BY TABTRACTCE, TABBLKGRPCE, TABBLK) - 1 AS block,
    dense_rank() OVER (ORDER BY TABTRACTCE, TABBLKGRPCE) - 1 AS block_group,
    dense_rank() OVER (ORDER BY TABTRACTCE) - 1 AS tract,
    dense_rank() OVER (ORDER BY MAFID) - 1 AS unit,
    {% if of_units %}GQTYPE::BIGINT{% else %}RTYPE = '4'{% endif %} AS quarters,
    QAGE AS age,
    CENRACE::BIGINT - 1 AS race,
    CENHISP::BIGINT - 1 AS hispanic,
    {% if sex %}QSEX::BIGINT - 1{% else %}0{% endif %} AS sex
    {%- if of_units %},
    coalesce(empty.vacant, 0) AS vacant
    {%- endif %}

FROM {{ units }}
JOIN {{ persons }} USING (MAFID)
{% if of_units %}
LEFT JOIN (
    SELECT TABTRACTCE, TABBLK, count(*) AS vacant
    FROM {{ units }}
    ANTI JOIN {{ persons }} USING (MAFID)
    WHERE TABBLKST = $state AND TABBLKCOU = $county AND RTYPE = '2'
    GROUP BY ALL
) AS empty USING (TABTRACTCE, TABBLK)
{% endif %}
WHERE TABBLKST = $state AND TABBLKCOU = $county{% if of_tract %} AND TABTRACTCE = $tract{% endif %}

ORDER BY ALL
