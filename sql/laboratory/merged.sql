-- The measures of all parts of the grid, with those of one part in place of what was stored of it.
{% if stored %}
FROM {{ stored }} WHERE point <> $point OR draw <> $draw
UNION ALL BY NAME
{% endif %}
FROM {{ new }}
