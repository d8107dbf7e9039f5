-- The number of strata and b, from the records alone: a stratum contains two distinct records if one of the other
-- variables has two values in it, or is missing in some of its records and present in others.
SELECT
    count(*) AS strata,
    coalesce(max(records) FILTER (WHERE distinct_records), 0) AS largest
FROM (
    SELECT
        count(*) AS records,
        false
        {% for variable in others %}
        OR coalesce(min({{ variable | id }}) <> max({{ variable | id }}), false)
        OR count({{ variable | id }}) BETWEEN 1 AND count(*) - 1
        {% endfor %} AS distinct_records
    FROM {{ records }}
    {% if match %}GROUP BY {{ match | ids }}{% endif %}

    HAVING count(*) > 0
) AS strata
