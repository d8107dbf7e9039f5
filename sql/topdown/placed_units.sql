{# The units of the CEF with the number of the place they lie in. A subquery, included in statements, never run alone. #}
SELECT unit.*, place.number
FROM {{ units }} AS unit
JOIN (SELECT number, geoid FROM {{ spine }} WHERE level = $finest) AS place
    ON place.geoid = {% with columns = finest_columns %}{% include "topdown/code.sql" %}{% endwith %}

