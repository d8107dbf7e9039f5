-- The codes of the places of a level from `first` up to but excluding `last`, in the order of their numbers.
SELECT geoid
FROM {{ spine }}
WHERE level = $level AND number >= $first AND number < $last
ORDER BY number
