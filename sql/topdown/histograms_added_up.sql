-- The histograms of all partitions, added up. Partitions have the codes of places in place of their numbers.
SELECT counted.histogram, place.number, counted.cell, counted.count
FROM (
    {% include "measurement/added_up.sql" %}
) AS counted
JOIN {{ spine }} AS place ON place.level = $finest AND place.geoid = counted.number
ORDER BY counted.histogram, place.number, counted.cell
