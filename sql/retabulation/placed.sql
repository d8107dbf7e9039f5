-- The blocks of the publication in each geography, with a number for each place.
SELECT level, geoid, block, dense_rank() OVER (ORDER BY level, geoid) - 1 AS number
FROM {{ geography }}
SEMI JOIN {{ blocks }} AS published USING (block)
ORDER BY ALL
