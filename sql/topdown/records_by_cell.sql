-- The number of records of every place of the finest level, by cell of their histogram. Empty cells are left out.
SELECT place.number, counted.cell, counted.count
FROM (
    SELECT
        geoid,
        {% for name, inner, size in attributes %}{% if not loop.first %} + {% endif %}{{ name | id }} * {{ inner }}{% endfor %} AS cell,
        count(*) AS count
    FROM {{ records }}
    GROUP BY ALL
) AS counted
JOIN {{ spine }} AS place ON place.level = $finest AND place.geoid = counted.geoid
