{# The number of units in blocks with several block groups, as a value; included in the rules of the layout, never run alone. #}
(
    SELECT coalesce(sum(units), 0)::BIGINT
    FROM (
        SELECT count(*) AS units
        FROM {{ units }}
        GROUP BY TABBLKST, TABBLKCOU, TABTRACTCE, TABBLK
        HAVING count(DISTINCT TABBLKGRPCE) > 1
    )
)
