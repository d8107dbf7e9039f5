-- The number of records with each combination of values that occurs.
SELECT
{% for column in columns %}
    {% if persons is defined %}{% if column in of_persons %}persons{% else %}units{% endif %}.{% endif %}{{ column | id }},
{% endfor %}
    count(*)::BIGINT AS count
FROM
{% if persons is defined %}
    (SELECT {{ ([unit] + of_persons) | unique | ids }} FROM {{ persons }}) AS persons
    JOIN (SELECT {{ ([key] + of_units) | unique | ids }} FROM {{ units }}) AS units ON persons.{{ unit | id }} = units.{{ key | id }}
{% else %}
    {{ units }}
{% endif %}
GROUP BY ALL
ORDER BY ALL
