SELECT estimate, lower, upper
FROM {{ table }}
WHERE region_id = $region AND iteration_code = '*'
ORDER BY cell
