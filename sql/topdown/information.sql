-- The information about the places from `first` up to but excluding `last`, in the order of their numbers.
SELECT number, present, estimate, variance
FROM {{ table }}
WHERE histogram = $histogram AND number >= $first AND number < $last
ORDER BY number
