-- The records by holding and swap value. Records with the same values are counted before their codes are looked up.
SELECT holding.holding_code::INTEGER, swapping.swap_code::INTEGER, records.count
FROM (
    SELECT {{ variables | ids }}, {{ number }} AS count FROM {{ records }} GROUP BY ALL
) AS records
JOIN {{ holding }} AS holding ON {{ holding_variables | same("records", "holding") }}
JOIN {{ swapping }} AS swapping ON {{ swap_variables | same("records", "swapping") }}
ORDER BY ALL
