-- The number of measurements whose number and code do not belong to the same place of their level.
SELECT count(*)
FROM {{ measurements }} AS measured
ANTI JOIN {{ spine }} AS place
    ON place.level = measured.level AND place.number = measured.number AND place.geoid = measured.geoid
