-- The latest state of a lake, whether any role can connect to its catalog, whether the server may write a statement, or
-- the row that it is about, into its log, and whether the catalog computes what it shows: by a view, a child table,
-- which may be a foreign one, a policy, a generated column, or a type, function, aggregate or operator of its own.
-- Functions in C (13) are a superuser's. All names are those of PostgreSQL unless a search path has others precede them.
SELECT snapshot_id, connectable, logged, computed OR search_path LIKE '%pg\_%' ESCAPE '\'
FROM postgres_query({{ catalog }}, '
    SELECT
        (SELECT pg_catalog.max(snapshot_id) FROM ducklake_snapshot) AS snapshot_id,
        pg_catalog.has_database_privilege(''public'', pg_catalog.current_database(), ''CONNECT'') AS connectable,
        pg_catalog.current_setting(''search_path'') AS search_path,
        pg_catalog.current_setting(''log_statement'') <> ''none''
        OR pg_catalog.current_setting(''log_min_error_statement'') <> ''panic''
        OR pg_catalog.current_setting(''log_error_verbosity'') <> ''terse''
        OR pg_catalog.current_setting(''log_min_duration_statement'') <> ''-1''
        OR pg_catalog.current_setting(''log_min_duration_sample'') <> ''-1''
        OR pg_catalog.current_setting(''log_transaction_sample_rate'') <> ''0'' AS logged,
        EXISTS (
            SELECT
            FROM pg_catalog.pg_class AS relation
            WHERE relname::text LIKE ''ducklake%'' AND relkind NOT IN (''i'', ''S'') AND (
                relkind <> ''r'' OR relrowsecurity
                OR EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhparent = relation.oid)
                OR EXISTS (
                    SELECT
                    FROM pg_catalog.pg_attribute
                    JOIN pg_catalog.pg_type ON pg_type.oid = atttypid
                    WHERE attrelid = relation.oid AND NOT attisdropped
                        AND (attgenerated <> '''' OR typnamespace <> ''pg_catalog''::regnamespace::oid)
                )
            )
        )
        OR EXISTS (SELECT FROM pg_catalog.pg_operator WHERE oprnamespace <> ''pg_catalog''::regnamespace::oid)
        OR EXISTS (
            SELECT
            FROM pg_catalog.pg_proc
            WHERE pronamespace <> ''pg_catalog''::regnamespace::oid
                AND pronamespace <> ''information_schema''::regnamespace::oid
                AND (prolang NOT IN (12::oid, 13::oid) OR prokind = ''a'')
        ) AS computed
')
