-- Locks that only the charging role can take, in place of an advisory lock, which everybody can take and keep.
-- Applied once, by the owner of the schema (`stirred ledger migrate`). Never edit it: add another file.

-- A process of the earlier version would go on under the earlier lock.
DO $$
BEGIN
    IF NOT pg_catalog.pg_try_advisory_xact_lock(stirred.ledger_lock()) THEN
        RAISE EXCEPTION 'a process has the ledger open: stop all processes of the deployment and of auditors first';
    END IF;
END
$$;

-- Locked while the ledger is open: in the mode SHARE to read it, in the mode EXCLUSIVE to append to it.
CREATE TABLE stirred.turns ();

-- Locked from the moment in which an entry is inserted to the end of its transaction.
CREATE TABLE stirred.appends ();

REVOKE ALL ON stirred.turns, stirred.appends FROM PUBLIC;
-- There is nothing to update, but who may do so can take any lock.
GRANT UPDATE ON stirred.turns, stirred.appends TO stirred_charge;

-- As before, but for the lock.
CREATE OR REPLACE FUNCTION stirred.continue_chain() RETURNS TRIGGER
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last_sequence BIGINT;
    last_hash TEXT;
    of_draw TEXT[];
BEGIN
    LOCK TABLE stirred.appends IN EXCLUSIVE MODE;
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

DROP FUNCTION stirred.ledger_lock();
