-- The names of places by code. A code that stands for places of two levels would give one of them the name of the other.
SELECT names.geoid, any_value(names.name) AS name
FROM {{ names }} AS names
JOIN {{ spine }} AS place ON place.geoid = names.geoid
GROUP BY names.geoid
HAVING count(*) = 1
