{# The counts of an invariant, summed over the places of a level at or above the invariant's own level. A subquery,
   included in statements, never run alone. #}
SELECT place.number, held.category, sum(held.count) AS count
FROM {{ invariants }} AS held
JOIN (
    SELECT DISTINCT below.number AS below, above.number
    FROM {{ ancestry }} AS below JOIN {{ ancestry }} AS above USING (finest)
    WHERE below.depth = $held AND above.depth = $depth
) AS place ON place.below = held.number
WHERE held.invariant = $invariant
GROUP BY place.number, held.category
