SELECT level, histogram, count(*), sum(count)::BIGINT
FROM {{ estimates }}
GROUP BY level, histogram
ORDER BY list_position($levels, level), histogram
