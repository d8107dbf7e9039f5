SELECT count(*)
FROM {{ records }} AS record
WHERE record.{{ unit | id }} IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM {{ units }} AS unit WHERE unit.{{ key | id }} = record.{{ unit | id }})
