-- The regions of every type, in order.
SELECT region_type, region_id FROM {{ regions }} ORDER BY region_type, number
