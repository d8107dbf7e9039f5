-- For each level, its number of places and the largest number of children of any of them.
SELECT place.level, any_value(place.depth) AS depth, count(*) AS places, max(coalesce(below.places, 0)) AS most_below
FROM {{ spine }} AS place
LEFT JOIN (SELECT depth, parent, count(*) AS places FROM {{ spine }} GROUP BY depth, parent) AS below
    ON below.depth = place.depth + 1 AND below.parent = place.number
GROUP BY place.level
ORDER BY depth
