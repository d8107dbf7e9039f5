FROM {{ source }}
