-- The empty table of invariants, for a release that declares none.
SELECT ''::VARCHAR AS invariant, ''::VARCHAR AS level, 0::BIGINT AS number, ''::VARCHAR AS geoid, 0::BIGINT AS category,
    0::BIGINT AS count
WHERE false
