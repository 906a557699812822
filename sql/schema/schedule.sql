-- A schedule puts a message into a queue at instants. pkg/engine/schedule computes the instants and
-- writes the messages into belfry.inbox. belfry.schedule makes the rows.
--
--   handled_to  Every instant up to this one is handled. It never decreases, so no instant is handled
--               twice, also if the clock steps back.
--   next_at     The next instant, without jitter. NULL: not computed yet, or no instant follows.
--   due_at      When the server handles next_at. '-infinity': the server computes it at once. NULL: the
--               schedule is paused, has an error, or no instant follows.
CREATE TABLE belfry.schedule (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text COLLATE "C" NOT NULL UNIQUE,
    queue          text NOT NULL,
    partition      text NOT NULL DEFAULT 'Default',
    -- Exactly one of cron, every_seconds and at is set.
    cron           text,
    every_seconds  bigint,
    at             timestamptz,
    zone           text NOT NULL DEFAULT 'UTC', -- The time zone of cron.
    starts         timestamptz,
    ends           timestamptz,
    jitter         interval NOT NULL DEFAULT '0', -- Each instant is later by a part of this time.
    missed         text NOT NULL DEFAULT 'one' CHECK (missed IN ('skip', 'one', 'all')),
    overlap_group  text, -- No message is stored while this group has not finished the last one. NULL: always.
    payload        json NOT NULL,
    headers        json,
    delay          interval NOT NULL DEFAULT '0', -- No pop returns a message before this time has passed.
    paused         boolean NOT NULL DEFAULT false,
    pause_reason   text, -- The reason that the operator gave for the pause.
    handled_to     timestamptz NOT NULL,
    next_at        timestamptz,
    due_at         timestamptz DEFAULT '-infinity',
    last_at        timestamptz, -- The last instant whose message was stored.
    last_transaction_id text, -- The transaction id of the last message.
    last_inbox_id  bigint, -- The id of the row of the last message in belfry.inbox.
    error          text, -- Why the server cannot compute an instant.
    scheduled_by   regrole NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(), -- Of the last change by a caller.
    CHECK (num_nonnulls(cron, every_seconds, at) = 1)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX schedule_due ON belfry.schedule (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_queue ON belfry.schedule (queue, name);
CREATE INDEX schedule_error ON belfry.schedule (name) WHERE error IS NOT NULL;
-- The server itself does not set changed_at, so its own changes notify nobody.
CREATE TRIGGER schedule_notify AFTER INSERT OR DELETE OR UPDATE OF changed_at ON belfry.schedule
    FOR EACH STATEMENT EXECUTE FUNCTION belfry.schedule_notify();
