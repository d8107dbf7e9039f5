-- Ordering by all columns gives a unique order even for a ledger with duplicate sequence numbers after tampering.
SELECT {{ columns | ids }}
FROM {{ table }}
ORDER BY ALL
