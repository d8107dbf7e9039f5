-- The columns of a table, without any row.
SELECT {{ columns | ids }} FROM {{ table }} LIMIT 0
