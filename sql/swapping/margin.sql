-- Counts of records by some variables, numbered in the order of their values. The match variables come first, so that
-- the numbers of a stratum are consecutive.
SELECT
    (row_number() OVER (ORDER BY {{ variables | ids }}) - 1)::INTEGER AS {{ code | id }},
    {% if match %}(dense_rank() OVER (ORDER BY {{ match | ids }}) - 1){% else %}0{% endif %}::INTEGER AS stratum,
    *
FROM (SELECT {{ variables | ids }}, {{ number }} AS count FROM {{ records }} GROUP BY ALL)
ORDER BY {{ code | id }}
