-- Units with two more columns by which places are coded: the run of a tract subset among those of its prim, and the run
-- of a block among those of its tract subset with the same block group and the same types of group quarters. Runs are in
-- the order of codes; of n, there are at most ⌊√n⌋ + 13 in one. Both columns come first: of two with a name, DuckDB renames
-- the second.
WITH
block AS (
    SELECT
        TABBLKST, TABBLKCOU, PLACEFP, TABTRACTCE, TABBLK,
        any_value(TABBLKGRPCE) AS digit,
        coalesce(bit_or(1::INTEGER << GQTYPE::INTEGER) FILTER (WHERE GQTYPE <> '0' AND FINAL_POP > 0), 0) AS types
    FROM {{ units }}
    GROUP BY ALL
),
subset AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY TABBLKST, TABBLKCOU, PLACEFP ORDER BY TABTRACTCE) - 1 AS place,
        count(*) OVER (PARTITION BY TABBLKST, TABBLKCOU, PLACEFP) AS subsets
    FROM (SELECT DISTINCT TABBLKST, TABBLKCOU, PLACEFP, TABTRACTCE FROM block)
),
run AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY TABBLKST, TABBLKCOU, PLACEFP, TABTRACTCE, digit, types ORDER BY TABBLK) - 1 AS place,
        count(*) OVER (PARTITION BY TABBLKST, TABBLKCOU, PLACEFP, TABTRACTCE) AS blocks
    FROM block
)
SELECT
    'G' || lpad((subset.place // (floor(sqrt(subset.subsets)) + 13)::BIGINT)::VARCHAR, 4, '0') AS {{ subset_group | id }},
    run.digit || lpad(run.types::VARCHAR, 3, '0') || lpad((run.place // (floor(sqrt(run.blocks)) + 13)::BIGINT)::VARCHAR, 4, '0') AS {{ block_group | id }},
    unit.*
FROM {{ units }} AS unit
JOIN subset USING (TABBLKST, TABBLKCOU, PLACEFP, TABTRACTCE)
JOIN run USING (TABBLKST, TABBLKCOU, PLACEFP, TABTRACTCE, TABBLK)
