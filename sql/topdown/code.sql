{# The code of the place that a unit lies in, joined from its columns, of the table `alias` if there is one. Included in statements, never run alone. #}
{% for column in columns %}{% if alias is defined %}{{ alias | id }}.{% endif %}{{ column | id }}{% if not loop.last %} || {% endif %}{% endfor %}
