-- The number of records that the estimates give each group of consecutive places, in the order of places; without a
-- group, those of places that do not exist.
SELECT CASE WHEN number >= 0 THEN number // $places END AS piece, coalesce(sum(count), 0)::BIGINT
FROM {{ estimates }}
WHERE histogram = $histogram
GROUP BY piece
ORDER BY piece NULLS LAST
