-- The rows in the tables of states that are of a place in another state, or of none; the tables are in the order of the
-- states' numbers.
SELECT count(*)
FROM (
    {% for table in tables %}
    SELECT {{ loop.index0 }} AS state, {% if has_level %}level{% else %}$finest AS level{% endif %}, geoid FROM {{ table }}
    {% if not loop.last %}
    UNION ALL
    {% endif %}
    {% endfor %}
) AS part
LEFT JOIN {{ spine }} AS place ON place.level = part.level AND place.geoid = part.geoid
LEFT JOIN {{ ranges }} AS own
    ON own.state = part.state AND own.depth = place.depth
    AND place.number >= own.first AND place.number < own.last
WHERE own.state IS NULL
