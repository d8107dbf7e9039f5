-- The units of a synthetic census, with the third block group of each tract as a tract of its own.
SELECT * REPLACE (
    lpad((2 * TABTRACTCE::INTEGER - (TABBLKGRPCE < '3')::INTEGER)::VARCHAR, 6, '0') AS TABTRACTCE
)
FROM {{ units }}
