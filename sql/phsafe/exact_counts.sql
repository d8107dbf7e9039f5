-- The count of every released region, iteration and basis cell, zeros included, in the order of the draw. The
-- declaration (`released`) determines the cells; the data never do.
WITH
grid AS (
    SELECT
        row_number() OVER (ORDER BY number, region_id, iteration_code, data_cell) - 1 AS draw_order,
        run, level, region_id, region_type, iteration_code, data_cell
    FROM
        {{ released }} AS released,
        unnest(released.regions) AS regions(region_id),
        unnest(released.iterations) AS iterations(iteration_code),
        unnest(released.cells) AS cells(data_cell)
),
counted AS (
    SELECT run, region.type AS region_type, region.id AS region_id, iteration_code, cell AS data_cell, sum(count) AS count
    FROM
        {{ joined }},
        unnest([{'type': 'USA', 'id': '1'}, {'type': 'STATE', 'id': TABBLKST}]) AS regions(region),
        unnest({% include "phsafe/iterations.sql" %}) AS iterations(iteration_code)
    WHERE iteration_code IS NOT NULL
    GROUP BY ALL
)
SELECT grid.*, coalesce(counted.count, 0)::BIGINT AS count
FROM grid
LEFT JOIN counted USING (run, region_type, region_id, iteration_code, data_cell)
ORDER BY draw_order
