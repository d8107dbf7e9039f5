-- A redistricting table: its leaves are counted in every place of the finest level, rolled up, and summed to cells.
WITH
leaves AS (
    SELECT
        counted.number
        {% for _ in range(leaves) %}
        , coalesce(sum(counted.count) FILTER (leaf_of.leaf = {{ loop.index0 }}), 0)::BIGINT AS leaf_{{ loop.index0 }}
        {% endfor %}
    FROM {{ counts }} AS counted
    JOIN {{ leaf_of }} AS leaf_of USING (cell)
    GROUP BY counted.number
),
rolled_up AS (
    SELECT
        ancestry.depth,
        ancestry.number
        {% for _ in range(leaves) %}
        , sum(leaf_{{ loop.index0 }})::BIGINT AS leaf_{{ loop.index0 }}
        {% endfor %}
    FROM leaves
    JOIN {{ ancestry }} AS ancestry ON ancestry.finest = leaves.number
    GROUP BY ancestry.depth, ancestry.number
)
SELECT
    place.depth,
    place.level,
    place.geoid,
    -- A code that stands for places of two levels would give one of them the name of the other.
    CASE WHEN count(*) OVER (PARTITION BY place.geoid) = 1 THEN names.name END AS name
    {% for name, parts in cells %}
    , coalesce({% for part in parts %}{% if not loop.first %} + {% endif %}leaf_{{ part }}{% endfor %}, 0) AS {{ name | id }}
    {% endfor %}
FROM {{ spine }} AS place
LEFT JOIN {{ names }} AS names ON names.geoid = place.geoid
LEFT JOIN rolled_up ON rolled_up.depth = place.depth AND rolled_up.number = place.number
ORDER BY place.depth, place.number
