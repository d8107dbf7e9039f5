-- The count of every declared cell, zeros included, in the order of the draw. The data never determine which cells.
WITH counted AS (
    SELECT run, region.type AS region_type, region.id AS region_id, iteration_code, cell AS data_cell, sum(count) AS count
    FROM
        {{ joined }},
        unnest([{'type': 'USA', 'id': '1'}, {'type': 'STATE', 'id': TABBLKST}]) AS regions(region),
        unnest([
            '*',
            CASE
                WHEN race = '01' THEN 'A'
                WHEN race = '02' THEN 'B'
                WHEN race = '03' THEN 'C'
                WHEN race = '04' THEN 'D'
                WHEN race = '05' THEN 'E'
                WHEN race = '06' THEN 'F'
                WHEN race BETWEEN '07' AND '63' THEN 'G'
            END,
            CASE
                WHEN hispanic = '2' THEN 'H'
                WHEN hispanic = '1' AND race = '01' THEN 'I'
            END
        ]) AS iterations(iteration_code)
    WHERE iteration_code IS NOT NULL
    GROUP BY ALL
)
SELECT grid.*, coalesce(counted.count, 0)::BIGINT AS count
FROM {{ grid }} AS grid
LEFT JOIN counted USING (run, region_type, region_id, iteration_code, data_cell)
ORDER BY draw_order
