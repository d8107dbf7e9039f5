{# The code of the place that a unit lies in, from the columns that make it up; included and never run alone. #}
{% for column in columns %}{{ column | id }}{% if not loop.last %} || {% endif %}{% endfor %}
