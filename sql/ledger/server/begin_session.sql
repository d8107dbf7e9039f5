-- A process whose machine fails leaves the lock within about a minute, instead of the hours that TCP waits by default.
-- One that waits for something else keeps its lock, though its transaction is idle, and its other connection. Earlier
-- versions of PostgreSQL do not have all settings. Nobody else's functions or operators stand in for PostgreSQL's.
SELECT pg_catalog.set_config(name, value, false)
FROM (
    VALUES
    ('lock_timeout', %(patience)s),
    ('search_path', 'pg_catalog'),
    ('statement_timeout', '0'),
    ('idle_in_transaction_session_timeout', '0'),
    ('idle_session_timeout', '0'),
    ('transaction_timeout', '0'),
    ('tcp_keepalives_idle', '30'),
    ('tcp_keepalives_interval', '10'),
    ('tcp_keepalives_count', '3')
) AS wanted (name, value)
WHERE pg_catalog.current_setting(name, true) IS NOT NULL
