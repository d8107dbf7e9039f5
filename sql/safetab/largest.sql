SELECT region, iteration, estimate, lower, upper
FROM {{ table }}
ORDER BY estimate DESC, region_type, region_id, iteration_code
LIMIT $rows
