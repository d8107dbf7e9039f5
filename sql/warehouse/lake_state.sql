-- The latest state of a lake, whether its files are encrypted, and whether any role can connect to its catalog.
SELECT snapshot_id, encrypted, connectable
FROM postgres_query({{ catalog }}, '
    SELECT
        (SELECT max(snapshot_id) FROM ducklake_snapshot) AS snapshot_id,
        (SELECT value FROM ducklake_metadata WHERE key = ''encrypted'') AS encrypted,
        has_database_privilege(''public'', current_database(), ''CONNECT'') AS connectable
')
