-- The sizes of the strata, numbered in the order of their values.
SELECT
    {% if match %}(row_number() OVER (ORDER BY {{ match | ids }}) - 1){% else %}0{% endif %}::INTEGER AS stratum,
    *
FROM (SELECT {% if match %}{{ match | ids }}, {% endif %}count(*) AS count FROM {{ records }} GROUP BY ALL)
