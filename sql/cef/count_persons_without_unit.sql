SELECT count(*)
FROM {{ persons }} AS person
WHERE person.{{ unit | id }} IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM {{ units }} AS unit WHERE unit.{{ key | id }} = person.{{ unit | id }})
