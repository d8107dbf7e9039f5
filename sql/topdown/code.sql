{# The code of the place that a unit lies in, joined from its columns. Included in statements, never run alone. #}
{% for column in columns %}{{ column | id }}{% if not loop.last %} || {% endif %}{% endfor %}
