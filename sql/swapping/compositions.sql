-- The persons of each kind of unit, taken from one unit of that kind: all units of a kind have the same persons.
SELECT kinds.holding_code, {{ person_variables | ids("persons") }}, count(*) AS persons
FROM (
    SELECT holding.holding_code, min(records.unit_key) AS unit_key
    FROM {{ records }} AS records
    JOIN {{ holding }} AS holding ON {{ holding_variables | same("records", "holding") }}
    GROUP BY ALL
) AS kinds
JOIN {{ persons }} AS persons ON persons.{{ unit | id }} = kinds.unit_key
GROUP BY ALL
ORDER BY ALL
