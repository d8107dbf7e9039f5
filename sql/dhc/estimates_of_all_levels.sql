-- The counts of the finest level, with filled persons in place of those that were estimated, added up to all levels.
WITH finest AS (
    SELECT $of_persons AS histogram, number, cell, count FROM {{ persons }}
    UNION ALL
    SELECT histogram, number, cell, count FROM {{ estimates }} WHERE histogram <> $of_persons
)
SELECT
    $levels[ancestry.depth + 1] AS level,
    finest.histogram,
    ancestry.number,
    finest.cell,
    sum(finest.count)::BIGINT AS count
FROM finest
JOIN {{ ancestry }} AS ancestry ON ancestry.finest = finest.number
GROUP BY ancestry.depth, finest.histogram, ancestry.number, finest.cell
ORDER BY list_position($histograms, finest.histogram), ancestry.depth, ancestry.number, finest.cell
