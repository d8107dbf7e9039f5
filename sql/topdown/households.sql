-- The persons in households of the places from `first` up to but excluding `last` that have any.
SELECT number, sum(count)::BIGINT AS persons
FROM {{ estimates }}
WHERE histogram = $histogram AND cell < $cells AND number >= $first AND number < $last
GROUP BY number
