-- Every tract with persons, in order.
SELECT DISTINCT TABBLKST, TABBLKCOU, TABTRACTCE
FROM {{ units }}
JOIN {{ persons }} USING (MAFID)
ORDER BY ALL
