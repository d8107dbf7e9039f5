-- All rows of a table, sorted.
SELECT {{ columns | ids }} FROM {{ table }} ORDER BY ALL
