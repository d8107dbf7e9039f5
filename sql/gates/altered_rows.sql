-- The first rows by which a stored table differs from the same table made again.
SELECT *
FROM (
    SELECT 'stored, but not made' AS which, * FROM (
        SELECT {{ columns | ids }} FROM {{ stored }} EXCEPT ALL SELECT {{ columns | ids }} FROM {{ again }}
    )
    UNION ALL
    SELECT 'made, but not stored' AS which, * FROM (
        SELECT {{ columns | ids }} FROM {{ again }} EXCEPT ALL SELECT {{ columns | ids }} FROM {{ stored }}
    )
)
ORDER BY ALL DESC
LIMIT $rows
