-- The estimates of a table for the total population of a region.
SELECT cell, estimate, lower, upper
FROM {{ estimates }}
WHERE table_name = $table_name AND region_id = $region AND iteration_code = '*'
ORDER BY cell
