-- The queries that are not stored once for each place of their level with all answers, or that are not due.
SELECT coalesce(histogram, ''), coalesce(level, ''), coalesce(query, '')
FROM (
    SELECT
        histogram,
        level,
        query,
        number,
        {% if packed %}
        octet_length(answers) - 1 AS length,
        CASE answers[1:1] WHEN '\x01'::BLOB THEN 1 WHEN '\x02'::BLOB THEN 2 WHEN '\x04'::BLOB THEN 4 END AS width
        {% else %}
        list_count(answers) AS length,
        CASE WHEN list_count(answers) = len(answers) THEN 1 END AS width
        {% endif %}
    FROM {{ measurements }}
) AS stored
FULL JOIN {{ due }} AS due USING (histogram, level, query)
GROUP BY histogram, level, query, due.places
HAVING (
    count(*) = due.places
    AND count(DISTINCT number) = due.places
    AND min(number) = 0
    AND max(number) = due.places - 1
    AND bool_and(coalesce(length = due.cells * width, false))
) IS NOT TRUE
ORDER BY ALL
