-- The databases and roles of a cluster deployment, from nothing. An administrator of the server runs it with psql:
--
--   psql -v ON_ERROR_STOP=1 -v passwords=/safe/secrets/passwords -f deploy/postgres/roles.sql \
--       "host=database.example user=postgres dbname=postgres sslmode=verify-full sslrootcert=ca.pem"
--
-- The folder has a file with the password of each role. Running it again makes what is missing and sets the passwords.
-- `stirred ledger migrate` makes the ledger's tables afterwards, and Dagster and DuckLake make their own.
\if :{?passwords}
\else
\set passwords /run/secrets
\endif
\setenv STIRRED_PASSWORDS :passwords
\set dagster `cat "$STIRRED_PASSWORDS/stirred_dagster"`
\set ledger_owner `cat "$STIRRED_PASSWORDS/stirred_ledger_owner"`
\set office `cat "$STIRRED_PASSWORDS/stirred_office"`
\set auditor `cat "$STIRRED_PASSWORDS/stirred_auditor"`
\set confidential `cat "$STIRRED_PASSWORDS/stirred_confidential"`
\set public `cat "$STIRRED_PASSWORDS/stirred_public"`
\set reader `cat "$STIRRED_PASSWORDS/stirred_reader"`

-- No statement with a password gets into the server's log, not even one that fails.
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;
SET password_encryption = 'scram-sha-256';

SELECT format('CREATE ROLE %I %s', name, rights)
FROM (VALUES
    ('stirred_dagster', 'LOGIN'),
    ('stirred_ledger_owner', 'LOGIN'),
    ('stirred_charge', 'NOLOGIN'),
    ('stirred_audit', 'NOLOGIN'),
    ('stirred_office', 'LOGIN IN ROLE stirred_charge'),
    ('stirred_auditor', 'LOGIN IN ROLE stirred_audit'),
    ('stirred_confidential', 'LOGIN'),
    ('stirred_public', 'LOGIN'),
    ('stirred_read', 'NOLOGIN'),
    ('stirred_reader', 'LOGIN IN ROLE stirred_read')
) AS wanted (name, rights)
WHERE name NOT IN (SELECT rolname FROM pg_roles)
\gexec

ALTER ROLE stirred_dagster PASSWORD :'dagster';
ALTER ROLE stirred_ledger_owner PASSWORD :'ledger_owner';
ALTER ROLE stirred_office PASSWORD :'office';
ALTER ROLE stirred_auditor PASSWORD :'auditor';
ALTER ROLE stirred_confidential PASSWORD :'confidential';
ALTER ROLE stirred_public PASSWORD :'public';
ALTER ROLE stirred_reader PASSWORD :'reader';

-- Nor one about the confidential catalog, with minima and maxima of columns and the keys of files. Without this, each
-- commit that DuckLake enters again because another one came first would be in the log, and each that the disk refused.
ALTER ROLE stirred_confidential SET log_statement = 'none';
ALTER ROLE stirred_confidential SET log_min_error_statement = 'panic';
ALTER ROLE stirred_confidential SET log_error_verbosity = 'terse';
ALTER ROLE stirred_confidential SET log_min_duration_statement = -1;
ALTER ROLE stirred_confidential SET log_min_duration_sample = -1;
ALTER ROLE stirred_confidential SET log_transaction_sample_rate = 0;

-- Who reads the catalog for ever keeps nobody waiting for longer.
ALTER ROLE stirred_public SET lock_timeout = '1min';

-- Who only reads takes neither all connections nor, by what a query sorts, the disk.
ALTER ROLE stirred_auditor CONNECTION LIMIT 20;
ALTER ROLE stirred_reader CONNECTION LIMIT 20;
ALTER ROLE stirred_auditor SET temp_file_limit = '1GB';
ALTER ROLE stirred_reader SET temp_file_limit = '1GB';

SELECT format('CREATE DATABASE %I OWNER %I ENCODING ''UTF8'' TEMPLATE template0', name, owner)
FROM (VALUES
    ('stirred_dagster', 'stirred_dagster'),
    ('stirred_ledger', 'stirred_ledger_owner'),
    ('stirred_confidential', 'stirred_confidential'),
    ('stirred_public', 'stirred_public')
) AS wanted (name, owner)
WHERE name NOT IN (SELECT datname FROM pg_database)
\gexec

-- Neither connect nor make temporary tables, also not in the databases that every server has.
REVOKE ALL ON DATABASE stirred_dagster, stirred_ledger, stirred_confidential, stirred_public FROM PUBLIC;
REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;
GRANT CONNECT ON DATABASE stirred_ledger TO stirred_charge, stirred_audit;
GRANT CONNECT ON DATABASE stirred_public TO stirred_read;

-- Nor make large objects, as every role may. The owner keeps the right, without which it could not restore a dump.
\connect stirred_ledger
REVOKE EXECUTE ON FUNCTION lo_create(OID), lo_creat(INTEGER), lo_from_bytea(OID, BYTEA) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lo_create(OID), lo_creat(INTEGER), lo_from_bytea(OID, BYTEA) TO stirred_ledger_owner;

-- Who only reads sees the tables of the public catalog, also those that are made later.
\connect stirred_public
REVOKE EXECUTE ON FUNCTION lo_create(OID), lo_creat(INTEGER), lo_from_bytea(OID, BYTEA) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lo_create(OID), lo_creat(INTEGER), lo_from_bytea(OID, BYTEA) TO stirred_public;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO stirred_read;
ALTER DEFAULT PRIVILEGES FOR ROLE stirred_public IN SCHEMA public GRANT SELECT ON TABLES TO stirred_read;
