-- The exact counts of all cells in the order of the draw, from those of all partitions, which leave out zeros.
SELECT cells.*, coalesce(counted.count, 0) AS count
FROM {{ cells }} AS cells
LEFT JOIN (
    {% include "measurement/added_up.sql" %}
) AS counted USING (draw_order)
ORDER BY draw_order
