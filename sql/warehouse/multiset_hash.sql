-- Each row is written as a sequence of length-prefixed texts ('-' for NULL), which is unique to its values, and hashed.
-- The digests are summed in two lanes of 64 bits. `concat` leaves NULL out.
SELECT
    count(*),
    coalesce(sum(('0x' || substr(digest, 1, 16))::UBIGINT), 0),
    coalesce(sum(('0x' || substr(digest, 17, 16))::UBIGINT), 0)
FROM (SELECT sha256($salt || {% include "warehouse/row_text.sql" %}) AS digest FROM {{ table }})
