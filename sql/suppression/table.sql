-- A declared table with the count of every cell, or nothing where it is suppressed.
SELECT {{ columns | ids }}, published.count,{% for name in further %} published.{{ name | id }},{% endfor %} published.count IS NULL AS suppressed
FROM {{ cells }} AS cells
LEFT JOIN (SELECT * EXCLUDE (table_name) FROM {{ published }} WHERE table_name = $table_name) AS published USING (cell)
ORDER BY cell
