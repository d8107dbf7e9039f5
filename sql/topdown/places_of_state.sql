-- The places of the spine whose numbers are in the range of their level.
SELECT place.*
FROM {{ spine }} AS place
JOIN {{ ranges }} AS own ON own.depth = place.depth AND place.number >= own.first AND place.number < own.last
