-- A process whose machine fails leaves the lock within about a minute, instead of the hours that TCP waits by default.
SELECT
    set_config('lock_timeout', %(patience)s, false),
    set_config('tcp_keepalives_idle', '30', false),
    set_config('tcp_keepalives_interval', '10', false),
    set_config('tcp_keepalives_count', '3', false)
