-- The ledger's entries, which the database lets the charging role append and nobody change.
-- Applied once, by the owner of the schema (`stirred ledger migrate`). Never edit it: add another file.

DO $$
BEGIN
    IF pg_catalog.current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database must have the encoding UTF8, because entries are hashed in it';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'stirred_charge') THEN
        CREATE ROLE stirred_charge NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'stirred_audit') THEN
        CREATE ROLE stirred_audit NOLOGIN;
    END IF;
END
$$;

-- The constraints hold even where the trigger looks at an older snapshot (REPEATABLE READ).
CREATE TABLE stirred.entries (
    sequence BIGINT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('reserve', 'settle', 'withdraw')),
    dataset TEXT NOT NULL,
    release TEXT NOT NULL,
    draw_id TEXT NOT NULL,
    specification TEXT CHECK ((specification IS NOT NULL) = (kind = 'reserve')),
    commitment TEXT NOT NULL,
    output_version TEXT CHECK ((output_version IS NOT NULL) = (kind = 'settle')),
    recorded_at TEXT NOT NULL,
    previous_hash TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL,
    details TEXT,
    UNIQUE (kind, draw_id)
);

-- The number of the advisory lock: shared while the ledger is read, exclusive while it is appended to.
CREATE FUNCTION stirred.ledger_lock() RETURNS BIGINT
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 7238539641155216964 $$;

-- A text as JSON in ASCII, as Python's json.dumps writes it: characters beyond U+FFFF as two surrogates.
CREATE FUNCTION stirred.as_json(given TEXT) RETURNS TEXT
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    written TEXT := coalesce(to_json(given)::TEXT, 'null');
    found TEXT := '';
    letter TEXT;
    code INTEGER;
BEGIN
    IF written COLLATE "C" !~ '[^ -~]' THEN
        RETURN written;
    END IF;
    FOREACH letter IN ARRAY string_to_array(written, NULL) LOOP
        code := ascii(letter);
        IF code < 127 THEN
            found := found || letter;
        ELSIF code < 65536 THEN
            found := found || chr(92) || 'u' || lpad(to_hex(code), 4, '0');
        ELSE
            found := found || chr(92) || 'u' || to_hex(55296 + (code - 65536) / 1024)
                || chr(92) || 'u' || to_hex(56320 + (code - 65536) % 1024);
        END IF;
    END LOOP;
    RETURN found;
END
$$;

-- The hash of an entry: SHA-256 of all other fields as JSON in the order of their names, without details if NULL.
CREATE FUNCTION stirred.digest(entry stirred.entries) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT encode(
        sha256(
            convert_to(
                '{"commitment":' || stirred.as_json(entry.commitment)
                || ',"dataset":' || stirred.as_json(entry.dataset)
                || CASE WHEN entry.details IS NULL THEN '' ELSE ',"details":' || stirred.as_json(entry.details) END
                || ',"draw_id":' || stirred.as_json(entry.draw_id)
                || ',"kind":' || stirred.as_json(entry.kind)
                || ',"output_version":' || stirred.as_json(entry.output_version)
                || ',"previous_hash":' || stirred.as_json(entry.previous_hash)
                || ',"recorded_at":' || stirred.as_json(entry.recorded_at)
                || ',"release":' || stirred.as_json(entry.release)
                || ',"sequence":' || entry.sequence::TEXT
                || ',"specification":' || stirred.as_json(entry.specification)
                || '}',
                'UTF8'
            )
        ),
        'hex'
    )
$$;

-- Refuses an entry that does not continue the last one. The lock comes before the last entry is looked up.
CREATE FUNCTION stirred.continue_chain() RETURNS TRIGGER
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last_sequence BIGINT;
    last_hash TEXT;
    of_draw TEXT[];
BEGIN
    PERFORM pg_advisory_xact_lock(stirred.ledger_lock());
    SELECT entries.sequence, entries.hash INTO last_sequence, last_hash
    FROM stirred.entries
    ORDER BY entries.sequence DESC
    LIMIT 1;
    IF NEW.sequence IS DISTINCT FROM coalesce(last_sequence, 0) + 1 THEN
        RAISE EXCEPTION 'entry % does not follow entry %', NEW.sequence, coalesce(last_sequence, 0);
    END IF;
    IF NEW.previous_hash IS DISTINCT FROM coalesce(last_hash, repeat('0', 64)) THEN
        RAISE EXCEPTION 'entry % does not continue the entry before it', NEW.sequence;
    END IF;
    IF NEW.hash IS DISTINCT FROM stirred.digest(NEW) THEN
        RAISE EXCEPTION 'the hash of entry % does not match its fields', NEW.sequence;
    END IF;
    of_draw := ARRAY(SELECT entries.kind FROM stirred.entries WHERE entries.draw_id = NEW.draw_id);
    IF NEW.kind <> 'reserve' AND NOT 'reserve' = ANY (of_draw) THEN
        RAISE EXCEPTION 'entry % is of a draw that was not reserved before', NEW.sequence;
    END IF;
    IF NEW.kind = 'settle' AND 'withdraw' = ANY (of_draw) THEN
        RAISE EXCEPTION 'entry % settles a draw that was withdrawn before', NEW.sequence;
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION stirred.refuse_change() RETURNS TRIGGER
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is only appended to: % is refused', TG_OP;
END
$$;

CREATE INDEX entries_of_draw ON stirred.entries (draw_id);

CREATE TRIGGER continue_chain BEFORE INSERT ON stirred.entries
FOR EACH ROW EXECUTE FUNCTION stirred.continue_chain();

CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON stirred.entries
FOR EACH STATEMENT EXECUTE FUNCTION stirred.refuse_change();

-- Also in sessions that replicate, where other triggers do not run.
ALTER TABLE stirred.entries ENABLE ALWAYS TRIGGER continue_chain;
ALTER TABLE stirred.entries ENABLE ALWAYS TRIGGER refuse_change;

REVOKE ALL ON SCHEMA stirred FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA stirred FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA stirred FROM PUBLIC;
GRANT USAGE ON SCHEMA stirred TO stirred_charge, stirred_audit;
GRANT SELECT ON stirred.entries, stirred.migrations TO stirred_charge, stirred_audit;
GRANT INSERT ON stirred.entries TO stirred_charge;
GRANT EXECUTE ON FUNCTION stirred.ledger_lock() TO stirred_charge, stirred_audit;
GRANT EXECUTE ON FUNCTION stirred.as_json(TEXT), stirred.digest(stirred.entries) TO stirred_charge;
