-- The number of measurements of histograms or places that there are not.
SELECT count(*)
FROM {{ measurements }} AS measured
WHERE
    NOT coalesce(list_contains($histograms, measured.histogram), FALSE)
    OR NOT EXISTS (
        FROM {{ spine }} AS place
        WHERE place.level = measured.level AND place.number = measured.number
    )
