SELECT count FROM {{ margin }} ORDER BY {{ code | id }}
