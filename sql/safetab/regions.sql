SELECT
    region_type,
    (row_number() OVER (PARTITION BY region_type ORDER BY region_id) - 1)::INTEGER AS number,
    region_id
FROM (SELECT DISTINCT region_type, region_id FROM {{ area_regions }})
ORDER BY list_position($region_types, region_type), number
