-- The empty table of noisy measurements, before any is written.
SELECT ''::VARCHAR AS histogram, ''::VARCHAR AS level, ''::VARCHAR AS query, 0::BIGINT AS number, ''::VARCHAR AS geoid,
    []::INTEGER[] AS answers
WHERE false
