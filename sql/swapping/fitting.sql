SELECT *
FROM {{ table }} AS records
WHERE true
{% for condition in conditions %}
AND list_contains({{ condition.value }}, records.{{ condition.column | id }})
{% endfor %}
