-- The number of tracts.
SELECT count(*) FROM (SELECT DISTINCT TABBLKST, TABBLKCOU, TABTRACTCE FROM {{ units }})
