-- Counts of the finest level of the redistricting release, or of a replicate of it, in the numbers of our own spine.
SELECT own.number, counts.cell, counts.count
FROM {{ counts }} AS counts
JOIN {{ before }} AS before ON before.level = $level_before AND before.number = counts.number
JOIN {{ spine }} AS own ON own.level = $level AND own.geoid = before.geoid
WHERE
    counts.histogram = $histogram
    {% if chosen %}
    AND counts.replicate = $replicate
    {% endif %}
ORDER BY own.number, counts.cell
