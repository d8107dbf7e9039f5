-- The cell of every record, in no order: the number of its holding values times 2^32, plus the number of its swap values.
SELECT (holding.holding_code::BIGINT << 32) | swapping.swap_code AS cell
FROM {{ records }} AS records
JOIN {{ holding }} AS holding ON {{ holding_variables | same("records", "holding") }}
JOIN {{ swapping }} AS swapping ON {{ swap_variables | same("records", "swapping") }}
