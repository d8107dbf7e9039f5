-- Every invariant with its level, and the number of its places and categories without a count.
WITH
stored AS (
    SELECT invariant, level, count(DISTINCT category) AS categories, count(*) AS rows, count(count) AS counts
    FROM {{ invariants }} GROUP BY invariant, level
),
places AS (SELECT level, count(*) AS places FROM {{ spine }} GROUP BY level)
SELECT invariant, level, abs(coalesce(places, 0) * categories - counts)
FROM stored LEFT JOIN places USING (level)
ORDER BY invariant, level
