-- The rows of a finished table on the total population of a region.
SELECT estimate, lower, upper
FROM {{ table }}
WHERE region_id = $region AND iteration_code = '*'
ORDER BY cell
