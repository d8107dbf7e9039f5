-- The histogram of places that are made of finest ones, from the first of these up to the last.
SELECT place.number, counted.cell, sum(counted.count)::BIGINT AS count
FROM {{ counts }} AS counted
JOIN {{ places }} AS place ON place.finest = counted.number
WHERE
    counted.histogram = $histogram
    AND counted.number >= $first
    AND counted.number < $last
    {% if "replicate" in chosen %}
    AND counted.replicate = $replicate
    {% endif %}
GROUP BY place.number, counted.cell
ORDER BY place.number, counted.cell
