-- The queries that are not stored exactly once for each place of their level with as many answers as cells, and those
-- that are stored but not due.
WITH
stored AS (
    SELECT
        histogram,
        level,
        query,
        count(*) AS rows,
        count(DISTINCT number) AS numbers,
        min(number) AS least,
        max(number) AS most,
        min(len(answers)) AS fewest,
        max(len(answers)) AS longest,
        -- These do not count NULL.
        count(answers) AS lists,
        min(list_count(answers)) AS fewest_answers
    FROM {{ measurements }}
    GROUP BY ALL
)
SELECT
    coalesce(stored.histogram, due.histogram, ''),
    coalesce(stored.level, due.level, ''),
    coalesce(stored.query, due.query, '')
FROM stored
FULL JOIN {{ due }} AS due USING (histogram, level, query)
WHERE (
    stored.rows = due.places
    AND stored.numbers = due.places
    AND stored.least = 0
    AND stored.most = due.places - 1
    AND stored.lists = due.places
    AND stored.fewest = due.cells
    AND stored.longest = due.cells
    AND stored.fewest_answers = due.cells
) IS NOT TRUE
ORDER BY ALL
