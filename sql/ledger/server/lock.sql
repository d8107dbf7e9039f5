-- Until the connection ends, and not only the transaction: the anchor is written once more after the commit.
SELECT pg_advisory_lock(stirred.ledger_lock())
