-- The number of groups with the same key, and of those with several records; whether the numbers of the records of each are 1, 2
-- and so on; then, for each column, the number of groups whose records have different texts.
SELECT
    count(*),
    count(*) FILTER (WHERE records > 1),
    {% if number %}bool_and(numbered){% else %}false{% endif %}

    {% for name in columns %}
    , count(*) FILTER (WHERE NOT same_{{ loop.index0 }})
    {% endfor %}
FROM (
    SELECT
        count(*) AS records,
        {% if number %}
        coalesce(count(DISTINCT TRY_CAST({{ number | id }} AS BIGINT)) = count(*)
            AND min(TRY_CAST({{ number | id }} AS BIGINT)) = 1
            AND max(TRY_CAST({{ number | id }} AS BIGINT)) = count(*), false) AS numbered,
        {% endif %}
        {% for name in columns %}
        count({{ name | id }}) IN (0, count(*)) AND min({{ name | id }}) IS NOT DISTINCT FROM max({{ name | id }})
            AS same_{{ loop.index0 }},
        {% endfor %}
    FROM {{ relation }}
    GROUP BY {{ key | ids }}
)
