-- The error of a product of swapped data against the same product of the original data, over its cells. If the swapped
-- product has columns that tell draws apart, there is a row for each draw.
SELECT
    {% for column in draws %}{{ column | id }}, {% endfor %}avg(abs(truth - published) / truth) FILTER (truth > 0) AS mape,
    max(abs(truth - published)) AS largest_difference,
    count(*) FILTER (truth > 0) AS cells,
    count(*) FILTER (truth = 0) AS empty_cells
FROM (
    SELECT
        {% for column in draws %}coalesce(original.{{ column | id }}, swapped.{{ column | id }}) AS {{ column | id }}, {% endfor %}

        coalesce(original.count, 0) AS truth,
        coalesce(swapped.count, 0) AS published
    FROM (
        FROM {{ original }}{% if draws %}, (SELECT DISTINCT {{ draws | ids }} FROM {{ swapped }}){% endif %}

    ) AS original
    FULL JOIN {{ swapped }} AS swapped ON {{ (draws + columns) | same("original", "swapped") }}
)
GROUP BY ALL
