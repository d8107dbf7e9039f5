-- The number of measurements of histograms or levels that there are not.
SELECT count(*)
FROM {{ measurements }}
WHERE (list_contains($histograms, histogram) AND list_contains($levels, level)) IS NOT TRUE
