{# The counts of an invariant, summed over the places of a level at or above the invariant's own level. A subquery,
   included in statements, never run alone. #}
SELECT place.number, counted.category, sum(counted.count) AS count
FROM {{ invariants }} AS counted
JOIN (
    SELECT DISTINCT below.number AS below, above.number
    FROM {{ ancestry }} AS below JOIN {{ ancestry }} AS above USING (finest)
    WHERE below.depth = $own_depth AND above.depth = $depth
) AS place ON place.below = counted.number
WHERE counted.invariant = $invariant
GROUP BY place.number, counted.category
