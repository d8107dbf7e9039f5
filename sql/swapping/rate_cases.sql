-- For each group of records, in order: its stratum in the last and in the first stir, its number of records, and the
-- number of the first case that fits and gives its swap rate; null if none does.
SELECT
    groups.stratum,
    {% if match %}(dense_rank() OVER (ORDER BY {{ match | ids("groups") }}) - 1){% else %}0{% endif %}::INTEGER AS first_stratum,
    groups.count::BIGINT AS count,
    CASE
        WHEN false THEN NULL -- There are no cases where all strata have one ε.
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
FROM {{ groups }} AS groups
ORDER BY groups.{{ order | id }}
