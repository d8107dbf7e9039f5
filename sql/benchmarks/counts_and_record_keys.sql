-- The count of every declared cell and the sum of the record keys that the data bring along, in order.
SELECT cells.cell, coalesce(counted.count, 0)::BIGINT AS count, coalesce(counted.key_sum, 0)::BIGINT AS key_sum
FROM {{ cells }} AS cells
LEFT JOIN (
    SELECT {{ columns | ids }}, count(*) AS count, sum({{ record_key | id }}) AS key_sum
    FROM {{ records }}
    GROUP BY ALL
) AS counted ON {{ columns | same("cells", "counted") }}
ORDER BY cells.cell
