-- The numbers of chosen counts that are of unknown cells, that are not from 1 to the greatest, and that repeat another
-- count's cell of a place.
SELECT
    count(*) FILTER (WHERE (cell >= 0 AND cell < $size) IS NOT TRUE),
    count(*) FILTER (WHERE (count >= 1 AND count <= $most) IS NOT TRUE),
    count(*) - count(DISTINCT (number, cell))
{% include "topdown/chosen_counts.sql" %}
