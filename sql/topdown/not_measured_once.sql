-- The queries that are not stored once for each place of their level with all answers, or that are not due.
SELECT coalesce(histogram, ''), coalesce(level, ''), coalesce(query, '')
FROM (
    SELECT histogram, level, query, number, len(answers) AS length, list_count(answers) AS answers
    FROM {{ measurements }}
) AS stored
FULL JOIN {{ due }} AS due USING (histogram, level, query)
GROUP BY histogram, level, query, due.places
HAVING (
    count(*) = due.places
    AND count(DISTINCT number) = due.places
    AND min(number) = 0
    AND max(number) = due.places - 1
    AND bool_and(coalesce(length = due.cells AND answers = due.cells, false))
) IS NOT TRUE
ORDER BY ALL
