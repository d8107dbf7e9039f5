-- One process at a time migrates; the lock ends with the transaction.
SELECT pg_catalog.pg_advisory_xact_lock(7238539641155216965);

CREATE SCHEMA IF NOT EXISTS stirred;

CREATE TABLE IF NOT EXISTS stirred.migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT pg_catalog.now()
);
