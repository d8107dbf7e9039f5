-- The tree: the places of every level, numbered from 0, with the children of one place next to each other.
WITH
{% for level in levels %}
level_{{ loop.index0 }} AS (
    {% if loop.first %}
    SELECT 0::BIGINT AS number, {{ level | id }} AS geoid, NULL::BIGINT AS parent
    FROM (SELECT DISTINCT {{ level | id }} FROM {{ places }})
    {% else %}
    SELECT row_number() OVER (ORDER BY above.number, place.{{ level | id }}) - 1 AS number, place.{{ level | id }} AS geoid, above.number AS parent
    FROM (SELECT DISTINCT {{ level | id }}, {{ loop.previtem | id }} FROM {{ places }}) AS place
    JOIN level_{{ loop.index0 - 1 }} AS above ON above.geoid = place.{{ loop.previtem | id }}
    {% endif %}
){% if not loop.last %},{% endif %}

{% endfor %}
{% for level in levels %}
SELECT $levels[{{ loop.index }}] AS level, {{ loop.index0 }}::BIGINT AS depth, number, geoid, parent FROM level_{{ loop.index0 }}
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
ORDER BY depth, number
