-- A process whose machine fails leaves the lock within about a minute, instead of the hours that TCP waits by default.
-- One that waits for something else keeps its lock, though its transaction is idle, and its other connection.
SELECT
    set_config('lock_timeout', %(patience)s, false),
    set_config('idle_in_transaction_session_timeout', '0', false),
    set_config('idle_session_timeout', '0', false),
    set_config('tcp_keepalives_idle', '30', false),
    set_config('tcp_keepalives_interval', '10', false),
    set_config('tcp_keepalives_count', '3', false)
