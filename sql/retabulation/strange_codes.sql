-- Of each geography, the blocks whose codes are longer or shorter than those of published blocks, and the published ones.
SELECT
    level,
    count(*) FILTER (WHERE length(block) NOT IN (SELECT length(published.block) FROM {{ blocks }} AS published)),
    count(*) FILTER (WHERE block IN (SELECT published.block FROM {{ blocks }} AS published))
FROM {{ geography }}
GROUP BY level
ORDER BY level
