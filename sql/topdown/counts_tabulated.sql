-- The counts of a histogram in a piece of places by cell; each place by its position among them, from 0. Counts of cells
-- that do not exist are left out; a gate finds them.
SELECT place.position, counted.cell, counted.count
FROM {{ counts }} AS counted
JOIN (
    SELECT depth, number, row_number() OVER (ORDER BY depth, number) - 1 AS position
    FROM {{ places }} AS place
    WHERE {% with place = "place" %}{% include "topdown/of_piece.sql" %}{% endwith %}
) AS place USING (depth, number)
WHERE {% with place = "counted" %}{% include "topdown/of_piece.sql" %}{% endwith %}

    AND counted.histogram = $histogram
    AND counted.cell >= 0
    AND counted.cell < $cells
    AND counted.count IS NOT NULL
