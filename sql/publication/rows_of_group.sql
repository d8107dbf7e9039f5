-- The rows of a table with certain values in some columns, as they are stored or in order. DuckDB reads rows that are
-- equal to a value without the others, unlike those that are not distinct from it.
SELECT {{ columns | ids }} FROM {{ table }}
{% for name, value in group %}
{% if loop.first %}WHERE{% else %}AND{% endif %} {{ name | id }} {% if value is none %}IS NULL{% else %}= $value_{{ loop.index0 }}{% endif %}

{% endfor %}
{% if order %}
ORDER BY {{ order | ids }}
{% endif %}
