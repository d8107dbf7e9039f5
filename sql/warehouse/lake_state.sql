-- The latest state of a lake, and whether any role can connect to its catalog.
SELECT snapshot_id, connectable
FROM postgres_query({{ catalog }}, '
    SELECT
        (SELECT max(snapshot_id) FROM ducklake_snapshot) AS snapshot_id,
        has_database_privilege(''public'', current_database(), ''CONNECT'') AS connectable
')
