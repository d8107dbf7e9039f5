-- A declared table with the count of every cell, or nothing where it is suppressed.
SELECT {{ columns | ids }}, published.count, published.count IS NULL AS suppressed
FROM {{ cells }} AS cells
LEFT JOIN (SELECT cell, count FROM {{ published }} WHERE table_name = $table_name) AS published USING (cell)
ORDER BY cell
