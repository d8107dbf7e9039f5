SELECT depth, number, coalesce(parent, -1) AS parent
FROM {{ spine }}
ORDER BY depth, number
