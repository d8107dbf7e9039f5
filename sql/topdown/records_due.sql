-- The records that the estimates give each group of consecutive places, in order; without a group, those of no place.
SELECT CASE WHEN number >= 0 THEN number // $places END AS piece, coalesce(sum(count), 0)::BIGINT
FROM {{ estimates }}
WHERE histogram = $histogram
GROUP BY piece
ORDER BY piece NULLS LAST
