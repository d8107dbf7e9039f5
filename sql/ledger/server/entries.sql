-- All columns, so that an added one shows.
SELECT *
FROM stirred.entries
ORDER BY sequence
