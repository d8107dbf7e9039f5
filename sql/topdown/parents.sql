-- Every place's number in its level and its parent's in the level above, from the root to the finest level.
SELECT depth, number, coalesce(parent, -1) AS parent
FROM {{ spine }}
ORDER BY depth, number
