-- The exact counts of a line and family of tables, in the order of the draw.
WITH counted AS (
    SELECT counts.region_id, counts.iteration_code, parts.detail, parts.place, sum(counts.count) AS count
    FROM {{ counts }} AS counts
    JOIN {{ parts }} AS parts ON parts.finest = counts.cell
    WHERE counts.region_type = $region_type AND counts.level = $level
    GROUP BY ALL
)
SELECT coalesce(counted.count, 0)::BIGINT AS count
FROM ({% include "safetab/household_cells.sql" %}) AS measured
LEFT JOIN counted USING (region_id, iteration_code, detail, place)
ORDER BY measured.draw_order
