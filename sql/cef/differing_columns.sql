-- For each column, the number of units that have more than one value there, among rows that differ. A null is a value.
SELECT
    {% for name in columns %}
    count(*) FILTER (WHERE values_{{ loop.index0 }} > 1),
    {% endfor %}
FROM (
    SELECT
        {% for name in columns %}
        count(DISTINCT {{ name | id }}) + (count({{ name | id }}) < count(*))::BIGINT AS values_{{ loop.index0 }},
        {% endfor %}
    FROM {{ table }}
    GROUP BY {{ key | id }}
)
