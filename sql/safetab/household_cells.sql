-- The cells of a line and family of tables that are measured, in the order of the draw.
SELECT
    (row_number() OVER (ORDER BY groups.number, cells.place) - 1)::BIGINT AS draw_order,
    groups.region_id,
    groups.iteration_code,
    cells.detail,
    cells.table_name,
    cells.place,
    cells.data_cell
FROM {{ groups }} AS groups
JOIN {{ cells }} AS cells ON cells.detail = groups.{{ family | id }}
WHERE groups.region_type = $region_type AND groups.level = $level
