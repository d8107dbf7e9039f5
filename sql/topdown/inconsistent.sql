-- The places that are not exactly once in a table, or whose cells are negative or not the sums of their parts.
SELECT count(*) + (SELECT count(*) - count(DISTINCT (level, geoid)) FROM {{ table }})
FROM {{ table }} AS stored
FULL JOIN {{ spine }} AS place ON place.level = stored.level AND place.geoid = stored.geoid
WHERE (
    place.geoid IS NOT NULL
    {% for column in columns %}
    AND stored.{{ column | id }} >= 0
    {% endfor %}
    {% for whole, parts in sums %}
    AND stored.{{ whole | id }} = {% for part in parts %}{% if not loop.first %} + {% endif %}stored.{{ part | id }}{% endfor %}

    {% endfor %}
) IS NOT TRUE
