-- The region types with a count.
SELECT DISTINCT region_type FROM {{ counts }}
