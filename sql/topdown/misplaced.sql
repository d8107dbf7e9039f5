-- Measurements whose number and code are not of one place of the level.
SELECT count(*)
FROM {{ measurements }} AS measured
ANTI JOIN {{ spine }} AS place
    ON place.level = measured.level AND place.number = measured.number AND place.geoid = measured.geoid
