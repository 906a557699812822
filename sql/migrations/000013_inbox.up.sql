-- Producers who speak only SQL. Whoever commits a row of belfry.inbox has pushed
-- a message: the sequencer (pkg/inbox) moves it into its partition, in a
-- transaction of its own. So a producer's transaction may stay open for long and
-- locks nothing that others want.

CREATE TABLE belfry.inbox (
    -- In the order of the inserts: the sequence gives out one at a time.
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue          text NOT NULL,
    partition      text NOT NULL DEFAULT 'Default',
    payload        json NOT NULL,
    transaction_id text,
    trace_id       uuid,
    visible_at     timestamptz,
    -- Of the producer's transaction, not of a savepoint in it.
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    inserted_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1,
        -- The table is mostly empty and always growing: to cut its end off takes a lock
        -- that producers would wait for.
        vacuum_truncate = false);

-- Finds what was committed since a snapshot without passing over what was
-- deleted before it, however long something keeps that from being vacuumed.
CREATE INDEX inbox_xid ON belfry.inbox (xid, id);

-- What could not be sequenced, until somebody deletes it or has it tried again.
CREATE TABLE belfry.inbox_rejected (
    -- The id it had in the inbox.
    id             bigint PRIMARY KEY,
    queue          text NOT NULL,
    partition      text NOT NULL,
    payload        json NOT NULL,
    transaction_id text,
    trace_id       uuid,
    visible_at     timestamptz,
    inserted_at    timestamptz NOT NULL,
    rejected_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- invalid, too_large or queue_full, and what is wrong in words.
    code           text NOT NULL,
    reason         text NOT NULL
);

-- Postgres drops repeated notifications of a transaction: there is one, however
-- many statements it has. There is none while the sequencer is awake, which lock 10
-- says: it comes by itself. Who leaves it out keeps lock 8 until its transaction
-- has ended, and the sequencer does not go to sleep before it has had that lock for
-- itself. pkg/inbox tells why this loses no row. 1111837766 is "BELF".
CREATE FUNCTION belfry.inbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_awake boolean := false;
BEGIN
    IF pg_catalog.pg_try_advisory_xact_lock_shared(1111837766, 8) THEN
        -- In this order. Whoever gets lock 10 gives it back in the same expression,
        -- so that no cancelled statement keeps it.
        v_awake := CASE WHEN pg_catalog.pg_try_advisory_lock_shared(1111837766, 10)
                        THEN NOT pg_catalog.pg_advisory_unlock_shared(1111837766, 10) ELSE true END;
    END IF;
    IF v_awake THEN
        RETURN NULL;
    END IF;
    PERFORM pg_catalog.pg_notify('belfry_inbox', '');
    RETURN NULL;
END $$;

-- Commits that notify go one at a time through the whole cluster. A session that
-- sets belfry.notify to off does not, and its rows wait for those of others, for
-- belfry.wake() or for the next sweep. So must a transaction that is to be prepared.
CREATE TRIGGER inbox_notify AFTER INSERT ON belfry.inbox
    FOR EACH STATEMENT
    WHEN (lower(coalesce(current_setting('belfry.notify', true), '')) NOT IN ('off', 'false', 'no', '0'))
    EXECUTE FUNCTION belfry.inbox_notify();

-- Says that rows wait in the inbox: for sessions with belfry.notify = off, after
-- their last commit, or once in a while.
CREATE FUNCTION belfry.wake() RETURNS void LANGUAGE sql AS $$
    SELECT pg_catalog.pg_notify('belfry_inbox', '')
$$;

-- Removes rows, in the transaction that appends their messages. All of them or an
-- error: whoever else has had one has stored its message.
CREATE FUNCTION belfry.inbox_take(p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_taken bigint;
BEGIN
    DELETE FROM belfry.inbox i WHERE i.id = ANY (p_ids);
    GET DIAGNOSTICS v_taken = ROW_COUNT;
    IF v_taken <> cardinality(p_ids) THEN
        RAISE EXCEPTION '% of % rows of the inbox were taken by somebody else', cardinality(p_ids) - v_taken, cardinality(p_ids)
            USING ERRCODE = 'BF002';
    END IF;
END $$;

-- Puts rejected rows back at the end of the inbox: those with the given ids, or all.
-- Returns how many.
CREATE FUNCTION belfry.inbox_retry(ids bigint[] DEFAULT NULL) RETURNS bigint LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM belfry.inbox_rejected r
         WHERE inbox_retry.ids IS NULL OR r.id = ANY (inbox_retry.ids)
        RETURNING r.id, r.queue, r.partition, r.payload, r.transaction_id, r.trace_id, r.visible_at
    ), back AS (
        INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at)
        SELECT g.queue, g.partition, g.payload, g.transaction_id, g.trace_id, g.visible_at FROM gone g ORDER BY g.id
        RETURNING 1
    )
    SELECT count(*) FROM back
$$;

-- A UUID whose first 48 bits are the time in milliseconds (version 7): ids that are
-- made one after the other lie beside each other in an index.
CREATE FUNCTION belfry.new_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(
               overlay(uuid_send(gen_random_uuid())
                       PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
               52, 1), 53, 1), 'hex')::uuid
$$;

-- Checks the arguments of push and push_many that are the same for all messages,
-- and returns when a message with them becomes visible.
CREATE FUNCTION belfry.push_check(p_queue text, p_delay interval, p_visible_at timestamptz)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz := p_visible_at;
BEGIN
    IF p_queue IS NULL THEN
        RAISE EXCEPTION 'belfry.push: the queue is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Name the queue in the first argument: belfry.push(''orders'', ''{"id": 1}'').';
    ELSIF octet_length(p_queue) > 255 THEN
        RAISE EXCEPTION 'belfry.push: the name of the queue is % bytes long', octet_length(p_queue)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'At most 255 bytes are allowed.';
    ELSIF p_delay IS NOT NULL AND p_visible_at IS NOT NULL THEN
        RAISE EXCEPTION 'belfry.push: delay and visible_at say the same thing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give one of them.';
    ELSIF p_delay < interval '0' THEN
        RAISE EXCEPTION 'belfry.push: the delay % is negative', p_delay
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for a message without a delay.';
    END IF;
    IF p_delay > interval '0' THEN
        v_at := clock_timestamp() + p_delay;
    END IF;
    IF v_at > clock_timestamp() + interval '365 days' THEN
        RAISE EXCEPTION 'belfry.push: the message would be visible at %, more than a year from now', v_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a delay of at most a year.';
    END IF;
    RETURN v_at;
END $$;

-- Pushes a message when the calling transaction commits; nothing when it rolls
-- back. Returns its transaction id: the given one, or one that is made. A message
-- with a transaction id that its partition has already is stored once.
CREATE FUNCTION belfry.push(
    queue text, payload json, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_at timestamptz := belfry.push_check(queue, delay, visible_at);
    v_id text := coalesce(nullif(transaction_id, ''), belfry.new_id()::text);
BEGIN
    IF payload IS NULL THEN
        RAISE EXCEPTION 'belfry.push: the payload is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'For the JSON value null write ''null''; of a row make JSON with to_json(row).';
    ELSIF octet_length(partition) > 255 THEN
        RAISE EXCEPTION 'belfry.push: the name of the partition is % bytes long', octet_length(partition)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'At most 255 bytes are allowed.';
    ELSIF char_length(v_id) > 255 THEN
        RAISE EXCEPTION 'belfry.push: the transaction id is % characters long', char_length(v_id)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'At most 255 characters are allowed; a hash of it will do.';
    END IF;
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at)
    VALUES (queue, coalesce(partition, 'Default'), payload, v_id, trace_id, v_at);
    RETURN v_id;
END $$;

-- The same for jsonb.
CREATE FUNCTION belfry.push(
    queue text, payload jsonb, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL
) RETURNS text LANGUAGE sql AS $$
    SELECT belfry.push($1, $2::json, $3, $4, $5, $6, $7)
$$;

-- The same for JSON as text, which is what a quoted payload without a type is.
CREATE FUNCTION belfry.push(
    queue text, payload text, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_payload json;
BEGIN
    BEGIN
        v_payload := payload::json;
    EXCEPTION WHEN invalid_text_representation THEN
        RAISE EXCEPTION 'belfry.push: the payload is no JSON: %', left(payload, 80)
            USING ERRCODE = 'invalid_text_representation',
                  HINT = 'Of text make a JSON string with to_json(x::text), of a row an object with to_json(row).';
    END;
    RETURN belfry.push(queue, v_payload, partition, transaction_id, delay, trace_id, visible_at);
END $$;

-- Pushes many messages with one statement, in the order of the arrays. partitions
-- and transaction_ids are as long as payloads, or NULL. Returns the places, from
-- 1, and the transaction ids.
CREATE FUNCTION belfry.push_many(
    queue text, payloads json[], partitions text[] DEFAULT NULL, transaction_ids text[] DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL
) RETURNS TABLE (index bigint, id text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_at timestamptz := belfry.push_check(push_many.queue, push_many.delay, push_many.visible_at);
    v_ids text[];
    v_bad bigint;
BEGIN
    IF cardinality(partitions) <> cardinality(payloads) OR cardinality(transaction_ids) <> cardinality(payloads) THEN
        RAISE EXCEPTION 'belfry.push_many: there are % payloads, % partitions and % transaction ids',
            coalesce(cardinality(payloads), 0), coalesce(cardinality(partitions), 0), coalesce(cardinality(transaction_ids), 0)
            USING ERRCODE = 'array_subscript_error', HINT = 'Give one for each payload, or leave the array out.';
    END IF;
    -- Side by side, whatever their bounds and dimensions.
    SELECT array_agg(coalesce(nullif(p.id, ''), belfry.new_id()::text) ORDER BY p.nth),
           min(p.nth) FILTER (WHERE p.payload IS NULL OR octet_length(p.lane) > 255 OR char_length(p.id) > 255)
      INTO v_ids, v_bad
      FROM unnest(payloads, partitions, transaction_ids) WITH ORDINALITY AS p(payload, lane, id, nth);
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'belfry.push_many: message % cannot be pushed', v_bad USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A payload must not be NULL, a partition has at most 255 bytes, a transaction id at most 255 characters.';
    END IF;
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at)
    SELECT push_many.queue, coalesce(p.lane, 'Default'), p.payload, p.id, push_many.trace_id, v_at
      FROM unnest(payloads, partitions, v_ids) WITH ORDINALITY AS p(payload, lane, id, nth)
     ORDER BY p.nth;
    RETURN QUERY SELECT i.nth, i.id FROM unnest(v_ids) WITH ORDINALITY AS i(id, nth) ORDER BY i.nth;
END $$;
