-- What the current role may do: append an entry, alter or remove one, or what guards them, and keep others out.
SELECT
    has_table_privilege(oid, 'INSERT'),
    has_table_privilege(oid, 'DELETE, TRUNCATE, TRIGGER') OR has_any_column_privilege(oid, 'UPDATE')
    OR pg_has_role(relowner, 'MEMBER'),
    has_table_privilege('stirred.turns', 'UPDATE')
FROM pg_catalog.pg_class
WHERE oid = 'stirred.entries'::regclass
