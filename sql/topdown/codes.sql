-- The places of the finest level, each with its code as its number. The code is computed before any name can be a
-- column's.
SELECT level, geoid, geoid AS number
FROM (
    SELECT DISTINCT $finest AS level, {% include 'topdown/code.sql' %} AS geoid
    FROM {{ units }}
)
