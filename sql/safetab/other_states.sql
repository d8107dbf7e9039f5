-- The number of blocks that lie in none of the given states.
SELECT count(*) FROM {{ units }} WHERE TABBLKST NOT IN (SELECT unnest($states))
