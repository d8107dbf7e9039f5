-- The rows of a table with certain values in some columns, as they are stored or in order.
SELECT {{ columns | ids }} FROM {{ table }}
{% for name in group %}
{% if loop.first %}WHERE{% else %}AND{% endif %} {{ name | id }} IS NOT DISTINCT FROM $value_{{ loop.index0 }}
{% endfor %}
{% if order %}
ORDER BY {{ order | ids }}
{% endif %}
