-- Until the connection ends, so that nobody appends between the chain and the anchor.
SELECT pg_advisory_lock_shared(stirred.ledger_lock())
