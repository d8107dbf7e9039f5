-- The number of cells whose code is not in a table of codes.
SELECT count(*)
FROM {{ cells }} AS cells
ANTI JOIN {{ known }} AS known USING ({{ code | id }})
