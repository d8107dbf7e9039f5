SELECT place.number, counted.cell, sum(counted.count)::BIGINT AS count
FROM {{ histograms }} AS counted
JOIN {{ places }} AS place ON place.finest = counted.number
WHERE counted.histogram = $histogram
GROUP BY place.number, counted.cell
