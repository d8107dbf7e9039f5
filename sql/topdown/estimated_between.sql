-- The cells that are not zero of one histogram, in the places from `first` up to but excluding `last`.
SELECT number, cell, count
FROM {{ estimates }}
WHERE histogram = $histogram AND number >= $first AND number < $last
ORDER BY number, cell
