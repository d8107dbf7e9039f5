-- Each row as a sequence of length-prefixed texts ('-' for NULL), which is unique to its values. `concat` leaves NULL out.
SELECT {% include "warehouse/row_text.sql" %} AS row_text FROM {{ table }}
