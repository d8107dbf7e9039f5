-- The number of records of each region of one type, iteration and finest cell, in the order of the draw.
SELECT level, number, member, cell, sum(count)::BIGINT AS count
FROM (
    SELECT regions.number, set_number, cell, sum(count)::BIGINT AS count
    FROM {{ area_counts }}
    JOIN {{ area_regions }} USING (area)
    JOIN {{ regions }} AS regions USING (region_type, region_id)
    WHERE region_type = $region_type
    GROUP BY ALL
)
JOIN (SELECT number AS set_number, unnest(members) AS member FROM {{ sets }}) USING (set_number)
JOIN {{ members }} AS members USING (member)
{% if groups %}
SEMI JOIN (
    SELECT regions.number, members.member
    FROM {{ groups }}
    JOIN {{ regions }} AS regions USING (region_type, region_id)
    JOIN {{ members }} AS members USING (iteration_code)
    WHERE region_type = $region_type
) USING (number, member)
{% endif %}
WHERE detailed = $detailed AND level IN (SELECT unnest($levels))
GROUP BY ALL
ORDER BY level, number, member, cell
