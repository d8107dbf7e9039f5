-- The rows of the estimates of some places that are of no place from `first` up to but excluding `last`.
SELECT count(*)
FROM {{ estimates }}
WHERE histogram = $histogram AND (number >= $first AND number < $last) IS NOT TRUE
