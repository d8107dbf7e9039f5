SELECT {{ columns | ids("cells") }}, measurements.count
FROM {{ measurements }} AS measurements
JOIN {{ cells }} AS cells USING (cell)
WHERE measurements.table_name = $table_name
ORDER BY cell
