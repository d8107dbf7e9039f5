SELECT
    {{ unit_variables | ids("units") }}{% if unit_variables and person_variables %}, {% endif %}

    {{ person_variables | ids("persons") }}
FROM {{ persons }} AS persons
JOIN {{ units }} AS units ON persons.{{ unit | id }} = units.{{ key | id }}
