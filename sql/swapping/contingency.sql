-- The records as the mechanism takes them: counts of codes in a fixed order.
SELECT holding.stratum, holding.holding_code, swapping.swap_code, count(*) AS count
FROM {{ records }} AS records
JOIN {{ holding }} AS holding ON {{ holding_variables | same("records", "holding") }}
JOIN {{ swapping }} AS swapping ON {{ swap_variables | same("records", "swapping") }}
GROUP BY ALL
ORDER BY holding.stratum, holding.holding_code, swapping.swap_code
