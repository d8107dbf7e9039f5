-- The stored swapped data in the form and the order of the mechanism's output.
SELECT coalesce(holding.stratum, -1)::INTEGER AS stratum, cells.holding_code, cells.swap_code, cells.count
FROM {{ cells }} AS cells
LEFT JOIN {{ holding }} AS holding USING (holding_code)
ORDER BY stratum, cells.holding_code, cells.swap_code
