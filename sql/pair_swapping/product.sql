SELECT {{ columns | ids }}, count(*) AS count
FROM {{ units }} AS units
{% if persons %}
JOIN {{ persons }} AS persons ON persons.unit = units.unit
{% endif %}
GROUP BY ALL
ORDER BY ALL
