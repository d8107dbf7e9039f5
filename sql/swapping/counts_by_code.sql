-- The counts of a margin in the order of its codes.
SELECT count FROM {{ margin }} ORDER BY {{ code | id }}
