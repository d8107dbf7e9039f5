-- For each place of the finest level, the places that it lies in, by depth, including itself.
WITH RECURSIVE ancestry AS (
    SELECT number AS finest, depth, number, parent FROM {{ spine }} WHERE level = $finest
    UNION ALL
    SELECT below.finest, place.depth, place.number, place.parent
    FROM ancestry AS below
    JOIN {{ spine }} AS place ON place.depth = below.depth - 1 AND place.number = below.parent
)
SELECT finest, depth, number FROM ancestry
