-- The stored measurements of a line and family of tables, in the order of the draw; NULL for those that are missing.
SELECT measured.draw_order, stored.count
FROM ({% include "safetab/household_cells.sql" %}) AS measured
LEFT JOIN (
    SELECT * FROM {{ measurements }} WHERE region_type = $region_type AND level = $level
) AS stored USING (region_id, iteration_code, table_name, data_cell)
ORDER BY measured.draw_order
