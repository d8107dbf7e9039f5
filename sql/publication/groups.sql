-- The combinations of values that some columns have, in order.
SELECT DISTINCT {{ columns | ids }} FROM {{ table }} ORDER BY ALL
