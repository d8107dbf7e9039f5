-- The number of records of each group of consecutive places that the estimates give, in the order of places.
SELECT number // $places AS piece, sum(count)::BIGINT
FROM {{ estimates }}
WHERE histogram = $histogram
GROUP BY piece
ORDER BY piece
