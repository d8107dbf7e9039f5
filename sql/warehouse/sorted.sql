-- All rows of a table, sorted. Columns that are neither integers nor texts become texts.
SELECT {% include "warehouse/as_plain.sql" %} FROM {{ table }} ORDER BY ALL
