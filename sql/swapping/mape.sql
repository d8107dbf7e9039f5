-- The error of a product of the swapped data against the same product of the original data, over its cells.
SELECT
    avg(abs(truth - published) / truth) FILTER (truth > 0) AS mape,
    max(abs(truth - published)) AS largest_difference,
    count(*) FILTER (truth > 0) AS cells,
    count(*) FILTER (truth = 0) AS empty_cells
FROM (
    SELECT coalesce(original.count, 0) AS truth, coalesce(swapped.count, 0) AS published
    FROM {{ original }} AS original
    FULL JOIN {{ swapped }} AS swapped ON {{ columns | same("original", "swapped") }}
)
