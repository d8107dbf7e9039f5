-- The number of every place in its level, and of its parent in the level above, from the root to the finest level.
SELECT depth, number, coalesce(parent, -1) AS parent
FROM {{ spine }}
ORDER BY depth, number
