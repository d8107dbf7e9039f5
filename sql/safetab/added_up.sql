-- The counts of all partitions, added up, in the order of the draw, and if there is a table of groups, of these alone.
SELECT *
FROM (
    {% include "measurement/added_up.sql" %}
)
{% if groups %}
SEMI JOIN {{ groups }} USING (region_type, region_id, iteration_code)
{% endif %}
ORDER BY list_position($region_types, region_type), level, region_id, iteration_code, cell
