-- A table as sums of published records, one row for each combination that occurs.
SELECT {{ columns | ids }}, sum(count)::BIGINT AS count
FROM {{ records }}
GROUP BY ALL
ORDER BY ALL
