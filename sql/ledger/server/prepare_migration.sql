CREATE SCHEMA IF NOT EXISTS stirred;

CREATE TABLE IF NOT EXISTS stirred.migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT pg_catalog.now()
);

-- One process at a time migrates; the lock ends with the transaction. Who only reads cannot take one that it waits for.
LOCK TABLE stirred.migrations IN EXCLUSIVE MODE;
