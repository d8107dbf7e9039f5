-- The number of codes that several combinations of values of the columns are joined to, and the number of all codes.
SELECT count(*) FILTER (WHERE combinations > 1), count(*)
FROM (
    SELECT count(*) AS combinations
    FROM (SELECT DISTINCT {{ columns | ids }} FROM {{ units }})
    GROUP BY {% include "topdown/code.sql" %}

)
