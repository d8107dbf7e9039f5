SELECT
    {% for name in columns %}
    count(*) FILTER (WHERE {{ name | id }} IS NULL),
    {% endfor %}
FROM {{ table }}
