-- The places of the finest level, each with its code as its number. The units, which may have a column geoid, are read
-- inside.
SELECT level, geoid, geoid AS number
FROM (
    SELECT DISTINCT $finest AS level, {% include 'topdown/code.sql' %} AS geoid
    FROM {{ units }}
)
