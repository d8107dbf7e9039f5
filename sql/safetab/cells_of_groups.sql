SELECT groups.row, counts.cell, counts.count
FROM {{ groups }} AS groups
JOIN {{ regions }} AS regions USING (number)
JOIN {{ iterations }} AS iterations USING (place)
JOIN {{ counts }} AS counts ON counts.region_id = regions.region_id AND counts.iteration_code = iterations.iteration_code
WHERE counts.region_type = $region_type AND counts.level = $level AND regions.region_type = $region_type
