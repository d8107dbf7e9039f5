-- The area of each unit of the states.
SELECT {{ key | id }} AS unit, area
FROM {{ units }}
JOIN {{ areas }} USING ({{ columns | ids }})
