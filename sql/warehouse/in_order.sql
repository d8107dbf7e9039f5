-- All rows of a table in the order in which they are stored. Columns that are neither integers nor texts become texts.
SELECT {% include "warehouse/as_plain.sql" %} FROM {{ table }}
