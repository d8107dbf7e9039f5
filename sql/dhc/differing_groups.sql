-- The number of places and groups in which two sums of counts differ. Cells of no group are left out.
WITH
one AS (
    SELECT counted.number, grouped.code, sum(counted.count) AS count
    FROM {{ counts }} AS counted
    JOIN {{ groups }} AS grouped ON grouped.cell = counted.cell
    GROUP BY ALL
),
other AS (
    SELECT counted.number, grouped.code, sum(counted.count) AS count
    FROM {{ held }} AS counted
    JOIN {{ held_groups }} AS grouped ON grouped.cell = counted.cell
    GROUP BY ALL
)
SELECT count(*)
FROM one FULL JOIN other USING (number, code)
WHERE one.count IS DISTINCT FROM other.count
