-- The first rows of a published file, in its order.
FROM {{ source }} LIMIT $most
