-- The occupied group quarters of every place of the finest level, by type. Places and types without any are left out.
SELECT unit.number, unit.geoid, unit.GQTYPE3 AS type, count(*) AS count
FROM (
    SELECT unit.*, place.number, place.geoid
    FROM {{ units }} AS unit
    JOIN (SELECT number, geoid FROM {{ spine }} WHERE level = $finest) AS place
        ON place.geoid = {% with columns = finest_columns %}{% include "topdown/code.sql" %}{% endwith %}
) AS unit
WHERE unit.GQTYPE3 <> '000' AND unit.FINAL_POP > 0
GROUP BY ALL
ORDER BY unit.number, type
