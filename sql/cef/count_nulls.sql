SELECT
    {% for name in columns %}
    count(*) FILTER (WHERE {{ name | id }} IS NULL){% if not loop.last %},{% endif %}

    {% endfor %}
FROM {{ table }}
