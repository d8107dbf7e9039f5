-- The occupied group quarters of every place of the finest level, by type. Places and types without any are left out.
SELECT place.number, place.geoid, unit.GQTYPE3 AS type, count(*) AS count
FROM {{ units }} AS unit
JOIN (SELECT number, geoid FROM {{ spine }} WHERE level = $finest) AS place
    ON place.geoid = {% with columns = finest_columns, alias = "unit" %}{% include "topdown/code.sql" %}{% endwith %}

WHERE unit.GQTYPE3 <> '000' AND unit.FINAL_POP > 0
GROUP BY ALL
ORDER BY place.number, type
