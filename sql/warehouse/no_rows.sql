FROM {{ source }} LIMIT 0
