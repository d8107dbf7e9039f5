-- Measurements of a line and family of tables, with their cells.
INSERT INTO {{ table }}
SELECT
    $region_type,
    $level,
    measured.region_id,
    measured.iteration_code,
    measured.table_name,
    measured.data_cell,
    rows.count
FROM ({% include "safetab/household_cells.sql" %}) AS measured
JOIN {{ rows }} AS rows USING (draw_order)
