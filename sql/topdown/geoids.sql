SELECT geoid
FROM {{ spine }}
WHERE level = $level AND number >= $first AND number < $last
ORDER BY number
