-- By all columns, so that even a tampered ledger with equal sequence numbers is read in one order.
SELECT {{ columns | ids }}
FROM {{ table }}
ORDER BY ALL
