{# The records that are counted, each with its unit, its detailed codes and its finest cell. Included in statements, never
   run alone. #}
{% if counted == "persons" %}
SELECT
    {{ unit | id }} AS unit,
    {{ codes | ids }},
    (
        (QSEX::UTINYINT - 1) * {{ ages | length }} + CASE
            {% for age in ages[1:] %}
            WHEN QAGE::UTINYINT < {{ age }} THEN {{ loop.index0 }}
            {% endfor %}
            ELSE {{ ages | length - 1 }}
        END
    )::UTINYINT AS cell
FROM {{ persons }}
{% elif counted == "households" %}
SELECT
    {{ unit | id }} AS unit,
    {{ codes | ids }},
    ((HOUSEHOLD_TYPE::UTINYINT - 1) * 4 + TEN::UTINYINT - 1)::UTINYINT AS cell
FROM {{ households }}
{% else %}
SELECT
    {{ unit | id }} AS unit,
    {{ codes | ids }},
    ((CASE HHT WHEN '6' THEN 4 WHEN '7' THEN 5 ELSE HHT::UTINYINT END - 1) * 4 + TEN::UTINYINT - 1)::UTINYINT AS cell
FROM {{ persons }} AS persons
JOIN {{ units }} AS units USING ({{ unit | id }})
WHERE RTYPE = '2' AND HHT <> '0' AND RELSHIP = '20'
{% endif %}
