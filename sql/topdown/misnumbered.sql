-- The number of missing record numbers: those from 1 to the number of records that no record has.
SELECT count(*) - count(DISTINCT record) FILTER (WHERE record BETWEEN 1 AND (SELECT count(*) FROM {{ records }}))
FROM {{ records }}
