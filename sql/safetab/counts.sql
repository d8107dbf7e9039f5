-- The number of records of each population group and finest cell, with the codes that numbers stand for. No row changes
-- its place, so that the counts made again have the same order.
{% for counts in region_counts %}
SELECT
    $region_types[{{ loop.index }}] AS region_type,
    level,
    $region_ids[{{ loop.index }}][number + 1]::VARCHAR AS region_id,
    $iteration_codes[member + 1]::VARCHAR AS iteration_code,
    cell,
    count
FROM {{ counts }}
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
