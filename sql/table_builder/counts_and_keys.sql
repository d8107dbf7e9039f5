-- The count and the key of every declared cell, in order; an empty cell has the key 0. The sums are exact: a sum of
-- UBIGINT is a HUGEINT, which holds the sums of 2^63 records. What the lower halves carry is added to the upper ones.
SELECT cells.cell, coalesce(counted.count, 0)::BIGINT AS count,
    coalesce((upper_sum + lower_sum // 18446744073709551616) % 18446744073709551616, 0)::UBIGINT AS key_upper,
    coalesce(lower_sum % 18446744073709551616, 0)::UBIGINT AS key_lower
FROM {{ cells }} AS cells
LEFT JOIN (
    SELECT {{ columns | ids("records") }}, count(*) AS count, sum(keys.key_upper) AS upper_sum,
        sum(keys.key_lower) AS lower_sum
    FROM {{ records }} AS records
    JOIN {{ keys }} AS keys USING ({{ record | ids }})
    GROUP BY ALL
) AS counted ON {{ columns | same("cells", "counted") }}
ORDER BY cells.cell
