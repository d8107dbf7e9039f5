-- A redistricting table: its leaves are counted in every place, and summed to cells.
WITH
leaves AS (
    SELECT counted.depth, counted.number, leaf_of.leaf, sum(counted.count)::BIGINT AS count
    FROM {{ counts }} AS counted
    JOIN {{ leaf_of }} AS leaf_of USING (cell)
    GROUP BY counted.depth, counted.number, leaf_of.leaf
),
-- Of each place and leaf, there is one row at most.
side_by_side AS (
    PIVOT leaves
    ON leaf IN ({% for _ in range(leaves) %}{% if not loop.first %}, {% endif %}{{ loop.index0 }} AS leaf_{{ loop.index0 }}{% endfor %})
    USING any_value(count)
    GROUP BY depth, number
)
SELECT
    place.depth,
    place.level,
    place.geoid,
    -- A code that stands for places of two levels would give one of them the name of the other.
    CASE WHEN count(*) OVER (PARTITION BY place.geoid) = 1 THEN names.name END AS name
    {% for name, parts in cells %}
    , {% for part in parts %}{% if not loop.first %} + {% endif %}coalesce(leaf_{{ part }}, 0){% endfor %} AS {{ name | id }}
    {% endfor %}
FROM {{ spine }} AS place
LEFT JOIN {{ names }} AS names ON names.geoid = place.geoid
LEFT JOIN side_by_side AS counted ON counted.depth = place.depth AND counted.number = place.number
ORDER BY place.depth, place.number
