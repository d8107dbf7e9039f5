-- A piece of a redistricting table: its leaves are counted in the places from the first up to but excluding the last, by
-- level and number, and summed to cells.
WITH
leaves AS (
    SELECT counted.depth, counted.number, leaf_of.leaf, sum(counted.count)::BIGINT AS count
    FROM {{ counts }} AS counted
    JOIN {{ leaf_of }} AS leaf_of USING (cell)
    WHERE {% with place = "counted" %}{% include "topdown/of_piece.sql" %}{% endwith %}
    GROUP BY counted.depth, counted.number, leaf_of.leaf
),
-- Of each place and leaf, there is one row at most.
side_by_side AS (
    PIVOT leaves
    ON leaf IN ({% for _ in range(leaves) %}{% if not loop.first %}, {% endif %}{{ loop.index0 }} AS leaf_{{ loop.index0 }}{% endfor %})
    USING any_value(count)
    GROUP BY depth, number
),
-- A code that stands for places of two levels would give one of them the name of the other.
named AS (
    SELECT names.geoid, any_value(names.name) AS name
    FROM {{ names }} AS names
    JOIN {{ spine }} AS place ON place.geoid = names.geoid
    GROUP BY names.geoid
    HAVING count(*) = 1
)
SELECT
    place.depth,
    place.level,
    place.geoid,
    named.name
    {% for name, parts in cells %}
    , {% for part in parts %}{% if not loop.first %} + {% endif %}coalesce(leaf_{{ part }}, 0){% endfor %} AS {{ name | id }}
    {% endfor %}
FROM {{ places }} AS place
LEFT JOIN named ON named.geoid = place.geoid
LEFT JOIN side_by_side AS counted ON counted.depth = place.depth AND counted.number = place.number
WHERE {% with place = "place" %}{% include "topdown/of_piece.sql" %}{% endwith %}
ORDER BY place.depth, place.number
