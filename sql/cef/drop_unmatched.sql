DELETE FROM {{ records }}
WHERE {{ unit | id }} IS NOT NULL
    AND {{ unit | id }} NOT IN (SELECT {{ key | id }} FROM {{ units }} WHERE {{ key | id }} IS NOT NULL)
