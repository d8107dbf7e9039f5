-- The codes of a level's places, in the order of their numbers.
SELECT geoid
FROM {{ spine }}
WHERE level = $level
ORDER BY number
