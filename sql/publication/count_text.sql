SELECT count(*)
FROM {{ table }}
WHERE {% for name in columns %}{% if not loop.first %} OR {% endif %}{{ name | id }} = $text{% endfor %}

