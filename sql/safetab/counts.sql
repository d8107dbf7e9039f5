-- The number of records of each population group and finest cell; zeros are left out.
{% for counts in region_counts %}
SELECT region_type, level, region_id, iteration_code, cell, count
FROM {{ counts }}
JOIN (SELECT number, region_type, region_id FROM {{ regions }} WHERE region_type = $region_types[{{ loop.index }}])
    USING (number)
JOIN {{ members }} USING (member, level)
{% if groups %}
SEMI JOIN {{ groups }} USING (region_type, region_id, iteration_code)
{% endif %}
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
