-- The stored households in the order in which the mechanism takes them.
SELECT * FROM {{ households }} ORDER BY block, unit_key
