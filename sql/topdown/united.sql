-- The estimates of a level, from the tables of all states.
{% for table in tables %}
SELECT part.histogram, part.number, part.cell, part.count FROM {{ table }} AS part
{% if not loop.last %}
UNION ALL
{% endif %}
{% endfor %}
