-- The sizes of the strata, numbered in the order of their values.
SELECT
    {% if match %}
    (row_number() OVER (ORDER BY {{ match | ids }}) - 1)::INTEGER AS stratum,
    {% else %}
    0::INTEGER AS stratum,
    {% endif %}
    *
FROM (SELECT {% if match %}{{ match | ids }}, {% endif %}count(*) AS count FROM {{ records }} GROUP BY ALL)
