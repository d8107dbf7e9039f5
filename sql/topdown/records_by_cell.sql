-- The number of records of every place of the finest level, by cell of their histogram. Empty cells are left out.
-- A code that does not exist has no cell.
SELECT
    place.number,
    {% for name, inner, size in attributes %}{% if not loop.first %} + {% endif %}(list_position($codes[{{ loop.index }}], {{ name | id }}) - 1) * {{ inner }}{% endfor %} AS cell,
    counted.count
FROM (
    SELECT geoid, {% for name, inner, size in attributes %}{{ name | id }}, {% endfor %}count(*) AS count
    FROM {{ records }}
    GROUP BY ALL
) AS counted
JOIN {{ spine }} AS place ON place.level = $finest AND place.geoid = counted.geoid
