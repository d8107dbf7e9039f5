-- Counts by code, converted to counts by value, with the columns that are kept as they are.
SELECT
    {{ kept | ids("cells") }},
    {{ holding_variables | ids("holding") }},
    {{ swap_variables | ids("swapping") }},
    cells.count
FROM {{ cells }} AS cells
JOIN {{ holding }} AS holding USING (holding_code)
JOIN {{ swapping }} AS swapping USING (swap_code)
