SELECT {{ columns | ids }} FROM {{ source }} ORDER BY ALL LIMIT $rows
