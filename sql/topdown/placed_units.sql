{# The units of the CEF with the number of the place they lie in, which comes first: of two columns with a name, DuckDB
   renames the second. A subquery, included in statements, never run alone. #}
SELECT place.number, unit.*
FROM {{ units }} AS unit
JOIN (SELECT number, geoid FROM {{ spine }} WHERE level = $finest) AS place
    ON place.geoid = {% with columns = finest_columns, alias = "unit" %}{% include "topdown/code.sql" %}{% endwith %}

