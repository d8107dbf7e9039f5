-- The first rows of a table in the order of its columns.
SELECT {{ columns | ids }} FROM {{ source }} ORDER BY ALL LIMIT $rows
