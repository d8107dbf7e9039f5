-- The households that may be swapped, as codes, in the order in which the mechanism takes them.
SELECT
    {{ key | id }} AS unit_key,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU, TABTRACTCE, TABBLKGRPCE, TABBLK) - 1)::INTEGER AS block,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU, TABTRACTCE, TABBLKGRPCE) - 1)::INTEGER AS block_group,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU, TABTRACTCE) - 1)::INTEGER AS tract,
    (dense_rank() OVER (ORDER BY TABBLKST, TABBLKCOU) - 1)::INTEGER AS county,
    (dense_rank() OVER (ORDER BY TABBLKST) - 1)::INTEGER AS state,
    (dense_rank() OVER (ORDER BY TABBLKST, adults, minors, TEN) - 1)::INTEGER AS partners,
    (dense_rank() OVER (ORDER BY {{ key_variables | ids }}) - 1)::INTEGER AS key_values
FROM {{ records }}
WHERE swappable
ORDER BY block, unit_key
