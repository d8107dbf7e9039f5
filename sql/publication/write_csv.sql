COPY (SELECT {{ columns | ids }} FROM {{ table }} ORDER BY ALL)
TO {{ path }} (FORMAT csv, HEADER true, DELIMITER ',', QUOTE '"', ESCAPE '"', NULLSTR {{ missing }})
