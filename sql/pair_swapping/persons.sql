SELECT moved.unit, {{ variables | ids("persons") }}
FROM {{ persons }} AS persons
JOIN {{ moved }} AS moved ON persons.{{ key | id }} = moved.unit_key
ORDER BY ALL
