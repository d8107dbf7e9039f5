-- The number of codes that several combinations of values of the columns are joined to, and the number of all codes.
SELECT count(*) FILTER (WHERE combinations > 1), count(*)
FROM (
    SELECT code, count(*) AS combinations
    FROM (SELECT DISTINCT {{ columns | ids }}, {% include "topdown/code.sql" %} AS code FROM {{ units }})
    GROUP BY code
)
