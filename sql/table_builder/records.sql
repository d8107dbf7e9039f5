-- The records that are counted; persons have the columns of their units that are read.
{% if unit %}
SELECT {{ own | ids("persons") }}{% if own %}, {% endif %}{{ from_unit | ids("units") }}
FROM {{ persons }} AS persons
JOIN {{ units }} AS units ON persons.{{ unit | id }} = units.{{ key | id }}
{% else %}
FROM {{ records }}
{% endif %}
