-- For each group of records, in order: its stratum in the last and in the first stir, its number of records, and the
-- number of the first case that fits and gives its swap rate; null if none does.
SELECT
    groups.stratum,
    {% if match %}
    (dense_rank() OVER (ORDER BY {{ match | ids("groups") }}) - 1)::INTEGER AS first_stratum,
    {% else %}
    0::INTEGER AS first_stratum,
    {% endif %}
    groups.count::BIGINT AS count,
    {% if cases %}
    CASE
        {% for case in cases %}
        WHEN true
            {% for condition in case.conditions %}
            AND list_contains({{ condition.value }}, groups.{{ condition.column | id }})
            {% endfor %}
            {% if case.at_most %}
            AND {% if rarity %}sum(groups.count) OVER (PARTITION BY {{ rarity | ids("groups") }}){% else %}groups.count{% endif %} <= {{ case.at_most }}
            {% endif %}
            THEN {{ loop.index0 }}
        {% endfor %}
    END::INTEGER AS rate_case
    {% else %}
    NULL::INTEGER AS rate_case
    {% endif %}
FROM {{ groups }} AS groups
ORDER BY groups.{{ order | id }}
