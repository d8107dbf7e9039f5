-- Counts by code, converted to counts by value.
SELECT
    cells.holding_code,
    {{ holding_variables | ids("holding") }},
    {{ swap_variables | ids("swapping") }},
    cells.count
FROM {{ cells }} AS cells
JOIN {{ holding }} AS holding USING (holding_code)
JOIN {{ swapping }} AS swapping USING (swap_code)
