SELECT ancestry.number, counted.cell, sum(counted.count)::BIGINT AS count
FROM {{ histograms }} AS counted
JOIN {{ ancestry }} AS ancestry ON ancestry.finest = counted.number AND ancestry.depth = {{ depth }}
WHERE counted.histogram = $histogram
GROUP BY ancestry.number, counted.cell
