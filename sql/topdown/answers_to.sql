-- The noisy answers to one query in the places from `first` up to but excluding `last`, in the order of places.
SELECT number, answers
FROM {{ measurements }}
WHERE histogram = $histogram AND level = $level AND query = $query AND number >= $first AND number < $last
ORDER BY number
