-- The number of rows by which two tables differ as multisets: how much more often each row is in one than in the other.
SELECT coalesce(sum(abs(surplus)), 0)::BIGINT
FROM (
    SELECT sum("+1 or -1") AS surplus
    FROM (
        SELECT {{ columns | ids }}, 1 AS "+1 or -1" FROM {{ first }}
        UNION ALL
        SELECT {{ columns | ids }}, -1 FROM {{ second }}
    )
    GROUP BY {{ columns | ids }}
)
