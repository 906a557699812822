-- Generated from sql/schema and sql/functions by go run ./scripts/baseline.

CREATE SCHEMA IF NOT EXISTS belfry;

-- From sql/schema/queue.sql.

-- A queue and its options. pkg/queue/options.go says what each option does. Times are in seconds, except
-- retry_delay and retry_delay_max. 0 switches an optional limit off.
CREATE TABLE belfry.queue (
    id                          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid                         uuid NOT NULL DEFAULT gen_random_uuid(),
    name                        text NOT NULL CHECK (octet_length(name) <= 255 AND name NOT IN ('.', '..')),
    -- Tags that a pop can filter by: configured, or the first two parts of a dotted name.
    namespace                   text NOT NULL DEFAULT '',
    task                        text NOT NULL DEFAULT '',
    lease_time                  bigint NOT NULL DEFAULT 300,
    retry_limit                 bigint NOT NULL DEFAULT 7,
    delayed_processing          bigint NOT NULL DEFAULT 0,
    window_buffer               bigint NOT NULL DEFAULT 0,
    encryption_enabled          boolean NOT NULL DEFAULT false,
    retention_enabled           boolean NOT NULL DEFAULT false,
    retention_seconds           bigint NOT NULL DEFAULT 0,
    completed_retention_seconds bigint NOT NULL DEFAULT 0,
    max_wait_time_seconds       bigint NOT NULL DEFAULT 0,
    -- The greatest number of stored messages.
    max_size                    bigint NOT NULL DEFAULT 0,
    priority                    bigint NOT NULL DEFAULT 0,
    -- The delay of a redelivery; see belfry.retry_delay. retry_delay and retry_delay_max are milliseconds.
    retry_delay                 bigint NOT NULL DEFAULT 1000,
    retry_backoff               bigint NOT NULL DEFAULT 2,
    retry_delay_max             bigint NOT NULL DEFAULT 60000,
    ttl                         bigint NOT NULL DEFAULT 3600,
    dead_letter_queue           boolean NOT NULL DEFAULT false,
    dlq_after_max_retries       boolean NOT NULL DEFAULT false,
    expire_after_seconds        bigint NOT NULL DEFAULT 0,
    dead_letter_expired         boolean NOT NULL DEFAULT false,
    max_deliveries              bigint NOT NULL DEFAULT 0,
    -- The name of a new partition up to this text is its tenant; see belfry.open_tenants. Empty: off.
    tenant_delimiter            text NOT NULL DEFAULT '',
    -- No pop returns a message; see belfry.change_pause.
    paused                      boolean NOT NULL DEFAULT false,
    pause_reason                text, -- The reason that the operator gave for the pause.
    created_at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set when the deletion begins. The name is free at once; rows are deleted later, in small steps.
    deleted_at                  timestamptz
);
CREATE UNIQUE INDEX queue_name ON belfry.queue (name) WHERE deleted_at IS NULL;
CREATE INDEX queue_tags ON belfry.queue (namespace, task); -- Not partial: a plan made on the empty table would search a partial index for names.
CREATE INDEX queue_paused ON belfry.queue (id) WHERE paused;
CREATE INDEX queue_deleted ON belfry.queue (id) WHERE deleted_at IS NOT NULL;
-- The queues that a sweep examines.
CREATE INDEX queue_swept ON belfry.queue (id)
 WHERE deleted_at IS NULL AND (retention_enabled OR max_wait_time_seconds > 0 OR expire_after_seconds > 0);

-- From sql/schema/tenant.sql.

-- The owner of partitions of a queue, such as a customer. A push that creates a partition may name it, or the name of
-- the partition contains it; see belfry.open_tenants. It is deleted with the last partition that has it.
CREATE TABLE belfry.tenant (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id bigint NOT NULL REFERENCES belfry.queue (id),
    name     text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    UNIQUE (queue_id, name)
);

-- From sql/schema/partition.sql.

-- A partition: an ordered log of a queue, and the unit of claiming. A push locks this row. No column
-- that a push writes is indexed, so a push is a HOT update while the page of the row has room.
--
-- The table has no primary key: each update would examine every version of the key in a unique index,
-- and a held snapshot keeps old versions. ids are unique because the sequence of the table assigns them.
--
-- How a statement reaches the newest version of a row: in an index, versions of one key are ordered by
-- their position in the table, and a new version has a higher position. The clause "id >= x AND id <= x
-- ORDER BY id DESC LIMIT 1" walks from the high end, and stops at the first visible version. With "id =
-- x" the planner drops the order. The statement then updates the locked row by its position (ctid).
--
-- A new version that does not fit into the page of the row gets an entry in every index. The low
-- fillfactor makes this rare. vacuum_truncate is off because truncation locks out every session.
CREATE TABLE belfry.partition (
    id            bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    queue_id      bigint NOT NULL REFERENCES belfry.queue (id),
    -- The seq of the newest message; 0 if nothing was pushed yet.
    last_seq      bigint NOT NULL DEFAULT 0,
    last_push_at  timestamptz,
    -- The latest visible_at of all messages. After that instant no message is delayed.
    visible_until timestamptz,
    trimmed       bigint NOT NULL DEFAULT 0, -- Every message up to this seq is deleted.
    -- Deleted messages above trimmed. The partition stores last_seq - trimmed - holes messages.
    holes         bigint NOT NULL DEFAULT 0,
    -- Every message up to this seq is deleted, or is kept for a dead letter.
    swept         bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    uid           uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The queue is being deleted, and pushes are refused.
    closed        boolean NOT NULL DEFAULT false,
    -- No pop returns a message of the partition; see belfry.change_pause.
    paused        boolean NOT NULL DEFAULT false,
    tenant_id     bigint, -- NULL: the partition has no tenant.
    pause_reason  text, -- The reason that the operator gave for the pause.
    name          text NOT NULL CHECK (octet_length(name) <= 255 AND name NOT IN ('.', '..')),
    UNIQUE (queue_id, name)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false, toast.vacuum_truncate = false);
-- Deduplication is off, because Postgres reads the entries of a posting list from the lowest position
-- up. Equal keys are rare here, so the index stays small.
CREATE INDEX partition_id ON belfry.partition (id) WITH (deduplicate_items = off);
CREATE INDEX partition_paused ON belfry.partition (queue_id) WHERE paused;
CREATE INDEX partition_tenant ON belfry.partition (tenant_id) WHERE tenant_id IS NOT NULL;
CREATE INDEX partition_uid ON belfry.partition (uid);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.partition REPLICA IDENTITY USING INDEX partition_queue_id_name_key;

-- From sql/schema/message.sql.

-- The log of messages. It has no foreign keys: each would cost an index look-up and a share lock for every
-- row, and the lock on the partition's row already gives the same guarantee.
CREATE TABLE belfry.message (
    partition_id   bigint NOT NULL,
    seq            bigint NOT NULL, -- The position, from 1. Deleted messages leave gaps.
    created_at     timestamptz NOT NULL, -- It never decreases within a partition.
    visible_at     timestamptz, -- No pop returns the message before this instant; NULL: no delay.
    id             uuid NOT NULL,
    trace_id       uuid,
    encrypted      boolean NOT NULL DEFAULT false, -- The payload is encrypted with the key of the server.
    -- The client chooses transaction_id to prevent duplicates. It is unique within a partition.
    transaction_id text COLLATE "C" NOT NULL,
    producer_sub   text, -- The subject of the producer's token.
    headers        json, -- An object of texts; see pkg/queue/headers.go. NULL: no headers.
    payload        json NOT NULL,
    PRIMARY KEY (partition_id, seq),
    UNIQUE (partition_id, transaction_id)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);

-- From sql/schema/consumer_group.sql.

-- A consumer group of one queue.
CREATE TABLE belfry.consumer_group (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id    bigint NOT NULL REFERENCES belfry.queue (id),
    name        text NOT NULL CHECK (octet_length(name) <= 255 AND name NOT IN ('.', '..')),
    -- Where the group starts: at the first message, after the newest message, or at start_at.
    mode        text NOT NULL DEFAULT 'all' CHECK (mode IN ('all', 'new', 'timestamp')),
    start_at    timestamptz,
    -- true: the group has a cursor in every partition. false: only in partitions that its pops named.
    whole_queue boolean NOT NULL DEFAULT false,
    -- While the group joins the queue, every partition with a lower name has its cursor. NULL: no join.
    joined_upto text,
    -- No pop of the group returns a message; see belfry.change_pause.
    paused      boolean NOT NULL DEFAULT false,
    pause_reason text, -- The reason that the operator gave for the pause.
    limits_id   bigint, -- The row of belfry.group_limit that holds for the group. NULL: no limits.
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The group was deleted. A new group of this name uses mode and start_at of this row.
    kept        boolean NOT NULL DEFAULT false,
    UNIQUE (queue_id, name)
);
CREATE INDEX consumer_group_name ON belfry.consumer_group (name, queue_id);
CREATE INDEX consumer_group_paused ON belfry.consumer_group (id) WHERE paused;

-- From sql/schema/group_deleted.sql.

-- A group whose row in consumer_group is deleted, so every pop, ack and extend fails. Its cursors and
-- dead letters are deleted in small transactions.
CREATE TABLE belfry.group_deleted (
    group_id bigint PRIMARY KEY,
    queue_id bigint NOT NULL
);

-- From sql/schema/group_limit.sql.

-- The limits of a consumer group in a queue. A group without a row of its own has the row of the queue, which
-- has the empty name. consumer_group.limits_id is the row that holds for a group.
--
-- The row may exist before the group. belfry.set_limits writes the rows and limits_id.
CREATE TABLE belfry.group_limit (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id             bigint NOT NULL REFERENCES belfry.queue (id),
    group_name           text NOT NULL,
    concurrency          bigint, -- The greatest number of live leases of the group. NULL: no limit.
    -- The group gets rate_messages messages in rate_per, and rate_burst at once after a pause. NULL: no limit.
    rate_messages        bigint,
    rate_per             interval,
    rate_burst           bigint,
    -- The same for each tenant; see belfry.tenant.
    tenant_concurrency   bigint,
    tenant_rate_messages bigint,
    tenant_rate_per      interval,
    tenant_rate_burst    bigint,
    fair                 boolean NOT NULL DEFAULT false, -- Claims take turns between the tenants.
    -- The breaker opens after this number of failures in a row, or after this share of failures among at least
    -- breaker_minimum acks in breaker_window. NULL: not because of it.
    breaker_failures     bigint,
    breaker_share        float8,
    breaker_window       interval,
    breaker_minimum      bigint,
    -- How long the breaker is open the first time, and at most; see belfry.breaker.
    breaker_pause        interval,
    breaker_pause_max    interval,
    -- What happens to a message without a retry left.
    on_exhausted         text NOT NULL DEFAULT 'deadLetter' CHECK (on_exhausted IN ('deadLetter', 'block', 'skip')),
    changed_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (queue_id, group_name)
);

-- From sql/schema/limit_slot.sql.

-- A place for one live lease of a group with a concurrency. A group has one row for each number from 1 to the
-- limit, and a claim makes missing rows. A lease of a limited group exists only together with its row.
--
-- A row is free if its lease is over: the cursor of the partition has another lease, or the lease has ended. So
-- the end of a lease writes nothing here, and a crash leaves no row occupied. belfry.take_slot has the proof
-- that the group never has more live leases than the limit.
CREATE TABLE belfry.limit_slot (
    group_id     bigint NOT NULL,
    tenant_id    bigint NOT NULL DEFAULT 0, -- 0: the row counts for the whole group.
    slot         bigint NOT NULL,
    partition_id bigint NOT NULL, -- The partition of the lease.
    lease_id     uuid NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false, toast.vacuum_truncate = false);
-- Not unique: each update would examine every version of the key. An advisory lock guards the insert.
CREATE INDEX limit_slot_place ON belfry.limit_slot (group_id, tenant_id, slot);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.limit_slot REPLICA IDENTITY FULL;

-- From sql/schema/limit_bucket.sql.

-- A token bucket of a group with a rate, or one of several parts of it. Each part has its share of the rate and
-- of the burst, so the sum of the parts is the limit, and claims that run at the same time use different parts.
-- belfry.take_tokens has the arithmetic. A claim makes missing rows.
CREATE TABLE belfry.limit_bucket (
    group_id  bigint NOT NULL,
    tenant_id bigint NOT NULL DEFAULT 0, -- 0: the row counts for the whole group.
    part      bigint NOT NULL,
    -- The instant at which the part is full again, if nothing takes tokens meanwhile.
    full_at   timestamptz NOT NULL,
    taken_at  timestamptz NOT NULL -- The instant of the last take.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false);
-- Not unique: each update would examine every version of the key. An advisory lock guards the insert.
CREATE INDEX limit_bucket_place ON belfry.limit_bucket (group_id, tenant_id, part);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.limit_bucket REPLICA IDENTITY FULL;

-- From sql/schema/limit_number.sql.

-- The numbers of the rows of belfry.limit_slot (kind 1), belfry.limit_bucket (2), belfry.breaker (3)
-- and belfry.breaker_count (4). Those tables have no unique index,
-- and rows here never change, so that a unique index is cheap. An insert with a snapshot from before the first insert of the number
-- fails with 40001. belfry.new_limit_row inserts.
CREATE TABLE belfry.limit_number (
    group_id  bigint NOT NULL,
    tenant_id bigint NOT NULL,
    kind      smallint NOT NULL,
    number    bigint NOT NULL,
    PRIMARY KEY (group_id, tenant_id, kind, number)
);

-- From sql/schema/breaker.sql.

-- The circuit breaker of a group. A group has a row from its first opening on. While the breaker is open, no claim of
-- the group delivers anything; see belfry.pass_breaker.
--
-- The breaker is closed while opened_at is NULL. Otherwise it is open until open_until, and then half-open: one
-- lease passes, which is the probe. The cursor of the probe says whether the probe is live, so the end of a lease
-- writes nothing here, and a crash leaves nothing behind.
CREATE TABLE belfry.breaker (
    group_id        bigint PRIMARY KEY,
    opened_at       timestamptz, -- Since when the breaker is not closed. NULL: it is closed.
    open_until      timestamptz,
    openings        integer NOT NULL DEFAULT 0, -- The openings since the breaker was closed. Each failed probe is one.
    reason          text,
    opened_by       text, -- 'failures', 'share', 'client', 'operator', or 'probe' after a probe that failed
    probe_partition bigint, -- The partition of the probe. NULL: the open breaker has let no lease pass yet.
    probe_lease     uuid
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX breaker_open ON belfry.breaker (group_id) WHERE opened_at IS NOT NULL;

-- From sql/schema/breaker_count.sql.

-- The outcomes of the messages of a group with a breaker. A group has up to eight rows. A transaction counts in a row
-- that no other transaction has locked, so acks do not wait for each other. The sum of the rows is the count;
-- see belfry.count_outcomes.
CREATE TABLE belfry.breaker_count (
    group_id         bigint NOT NULL,
    part             bigint NOT NULL,
    -- The number of the window since 1970, and its outcomes. The columns before_ have the outcomes of the window before.
    window_number    bigint NOT NULL,
    completed        bigint NOT NULL,
    failed           bigint NOT NULL,
    before_completed bigint NOT NULL,
    before_failed    bigint NOT NULL,
    -- The failures in a row that this row knows, and the instants of the first and the last of them.
    run              bigint NOT NULL,
    run_began        timestamptz NOT NULL,
    run_last         timestamptz NOT NULL,
    last_success     timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false);
-- Not unique: each update would examine every version of the key. An advisory lock guards the insert.
CREATE INDEX breaker_count_place ON belfry.breaker_count (group_id, part);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.breaker_count REPLICA IDENTITY FULL;

-- From sql/schema/outcome.sql.

-- The outcomes of the messages of one lease that one transaction learns. belfry.apply_acks collects one row for each
-- cursor of a limited group, and belfry.count_outcomes counts them for the breaker.
CREATE TYPE belfry.outcome AS (
    group_id     bigint,
    limits_id    bigint, -- of belfry.group_limit
    partition_id bigint,
    lease_id     uuid,
    ended_at     timestamptz, -- The lease ended without an ack at this instant. NULL: the outcomes are acks.
    completed    bigint,  -- the number of completed messages
    failed       bigint,  -- the number of failed deliveries
    run          bigint,  -- the number of failed deliveries after the last completed message
    pause        bigint,  -- the longest pause that a consumer asks for, in milliseconds; NULL: none
    error        text     -- of the last failure
);

-- From sql/schema/cursor.sql.

-- The position of a consumer group in a partition, and the lease of the partition.
--
-- The table has no unique index: each update would examine every version of the key in it. Locks ensure
-- that a group has one cursor in a partition. open_partitions creates a partition and its cursors under
-- a share lock on the queue. join_group creates missing cursors under an update lock on the queue, and
-- join_page under an update lock on the group.
CREATE TABLE belfry.cursor (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    committed    bigint NOT NULL DEFAULT 0, -- The group has finished every message up to this seq.
    -- The earliest instant at which a pop could return a message. NULL: nothing to return.
    ready_at     timestamptz,
    lease_until  timestamptz,
    -- The last seq that the lease covers. A negative value: the lease delivered redriven messages, and
    -- the absolute value is the number of messages that are not settled yet.
    lease_end    bigint,
    lease_id     uuid,
    -- attempts counts deliveries, and failures counts failed acks, of the first message after committed.
    attempts     integer NOT NULL DEFAULT 0,
    failures     integer NOT NULL DEFAULT 0,
    -- The number of messages that the group has consumed, and the instant of the last consumption.
    consumed     bigint NOT NULL DEFAULT 0,
    consumed_at  timestamptz,
    -- Set by a failed ack: no pop returns the first message after committed before this instant. The
    -- value has no meaning after that instant, or after the cursor has moved. belfry.blocked(): an operator
    -- must decide about that message.
    retry_at     timestamptz,
    alone_until  bigint, -- Up to this seq, messages are delivered one at a time (maxDeliveries).
    -- The number of messages that the cursor passed because they had expired.
    expired      bigint NOT NULL DEFAULT 0,
    -- Set if the group starts in the future. Until then ready_at is NULL, and a wake moves the cursor
    -- past new messages. At the first message after start_at a wake clears start_at.
    start_at     timestamptz,
    tenant_id    bigint, -- The tenant of the partition.
    redrives     integer, -- The number of rows in belfry.redrive for this cursor; NULL: none.
    skip         int8multirange -- Seqs above committed that are dead letters or skipped; NULL: none.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.2, vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX cursor_place ON belfry.cursor (partition_id, group_id);
CREATE INDEX cursor_ready ON belfry.cursor (group_id, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX cursor_asleep ON belfry.cursor (partition_id, group_id) WHERE ready_at IS NULL OR redrives > 0; -- for wake_partitions
CREATE INDEX cursor_tenant ON belfry.cursor (group_id, tenant_id, ready_at) WHERE tenant_id IS NOT NULL AND ready_at IS NOT NULL;
CREATE INDEX cursor_blocked ON belfry.cursor (group_id, partition_id) WHERE retry_at = timestamptz '2200-01-01 00:00:00+00'; -- belfry.blocked()
CREATE INDEX cursor_lease ON belfry.cursor (lease_id) WHERE lease_id IS NOT NULL;
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.cursor REPLICA IDENTITY FULL;

-- From sql/functions/ack/error_shape.sql.

-- Returns the shape of an error: its text with a mark for each part that differs between similar errors. "*" replaces a quoted
-- text, <id> a UUID or another long id, <hex> a hexadecimal number, and # a number. White space becomes one space. The
-- function reads the first 200 characters of the error, without a word that ends there: the word may be cut. belfry.dead_letter
-- stores the shape of each error.
CREATE FUNCTION belfry.error_shape(p_error text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v text COLLATE "C" := left(p_error, 200);
BEGIN
    IF length(v) = 200 THEN
        v := regexp_replace(v, '[0-9A-Za-z-]+$', '');
    END IF;
    v := regexp_replace(v, '\s+', ' ', 'g');
    v := regexp_replace(v, '"[^"]*"', '"*"', 'g');
    v := regexp_replace(v, '`[^`]*`', '`*`', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])''[^'']*''(?![0-9A-Za-z])', '''*''', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])', '<id>', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])0[xX][0-9a-fA-F]+', '<hex>', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])(?=[0-9a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9A-Za-z])', '<hex>', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[0-9A-Za-z]{16,}(?![0-9A-Za-z])', '<id>', 'g');
    v := regexp_replace(v, '(^|[ (=:,\[])[-+]([0-9])', '\1\2', 'g');
    v := regexp_replace(v, '[0-9]+([.,:][0-9]+)*', '#', 'g');
    RETURN left(v, 200);
END $$;

-- From sql/schema/dead_letter.sql.

-- A message that one group gave up. The row of the message stays in the log.
CREATE TABLE belfry.dead_letter (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    group_id     bigint NOT NULL,
    attempts     integer NOT NULL,
    failed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    error        text,
    -- The shape of the error, by which lists group dead letters. Postgres computes it, so every insert agrees.
    shape        text COLLATE "C" GENERATED ALWAYS AS (belfry.error_shape(error)) STORED,
    UNIQUE (partition_id, group_id, seq)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX dead_letter_failed ON belfry.dead_letter (group_id, failed_at);
-- A sweep checks whether any group has a dead letter for a message.
CREATE INDEX dead_letter_message ON belfry.dead_letter (partition_id, seq);

-- From sql/schema/redrive.sql.

-- A dead letter that was put back for its group, and is not settled yet. In the log the cursor has
-- passed or skips the message, so belfry.claim delivers the message from this table. Only the holder of
-- the row lock on the cursor writes a row.
CREATE TABLE belfry.redrive (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    seq          bigint NOT NULL,
    -- The numbers of failed acks and of deliveries, continued from the dead letter.
    failures     integer NOT NULL,
    attempts     integer NOT NULL,
    lease_id     uuid, -- The lease of the newest delivery; it may have expired.
    redriven_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    deliveries   integer NOT NULL DEFAULT 0, -- Deliveries since the message was put back.
    -- Set by a failed ack: no pop returns the message before this instant. Redriven messages keep their
    -- order, so later redriven messages wait as well. Messages of the log do not wait.
    retry_at     timestamptz,
    PRIMARY KEY (partition_id, group_id, seq)
) WITH (vacuum_truncate = false);

-- From sql/schema/attempt.sql.

-- A delivery of a message that failed: a failed ack, a retry, a dead letter, or a lease that ended
-- without an ack. A delivery that succeeds writes no row. The rows stay after a redrive. They are
-- deleted with the message. record_attempts keeps the newest 20 rows of a message and a group, and a
-- sweep keeps the newest 100,000 rows of all messages.
CREATE TABLE belfry.attempt (
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    group_id     bigint NOT NULL,
    nth          integer NOT NULL, -- Counts the failed deliveries of the message for the group, from 1.
    -- The begin of the lease, by the clock of the instance that created the lease. NULL: unknown.
    delivered_at timestamptz,
    failed_at    timestamptz NOT NULL,
    result       smallint NOT NULL, -- 2 failed, 3 dlq, 4 retry (see apply_acks), 5 the lease ended
    lease_id     uuid,
    error        text,
    consumer     text, -- Who sent the ack. NULL: unknown.
    instance     text, -- The instance that applied the ack. NULL: a SQL consumer, or the lease ended.
    PRIMARY KEY (partition_id, seq, group_id, nth)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX attempt_failed ON belfry.attempt (failed_at);

-- From sql/schema/resent.sql.

-- A message that an operator sent again as a new message, with changes. The row describes the new message
-- and is deleted with the old one.
CREATE TABLE belfry.resent (
    partition_id   bigint NOT NULL, -- The partition and the seq of the old message.
    seq            bigint NOT NULL,
    message_id     uuid NOT NULL,
    queue          text NOT NULL,
    partition      text NOT NULL,
    transaction_id text NOT NULL,
    sent_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    sender         text, -- The subject, or else the address. NULL: unknown.
    PRIMARY KEY (partition_id, seq, message_id)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);

-- From sql/schema/trace.sql.

-- A note of a consumer about a message.
CREATE TABLE belfry.trace (
    id           uuid PRIMARY KEY,
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    group_name   text NOT NULL,
    event_type   text NOT NULL,
    worker       text NOT NULL,
    names        text[] NOT NULL,
    data         json NOT NULL
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX trace_message ON belfry.trace (partition_id, seq, created_at, id);

-- From sql/schema/trace_name.sql.

-- One row for each name of a trace. The list of traces by name reads this table.
CREATE TABLE belfry.trace_name (
    name       text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    trace_id   uuid NOT NULL REFERENCES belfry.trace (id) ON DELETE CASCADE,
    PRIMARY KEY (name, created_at, trace_id)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX trace_name_trace ON belfry.trace_name (trace_id);

-- From sql/schema/sweep.sql.

-- A row says which instance runs a sweep job, and when the next run is due. The instance holds it until
-- held_until, and extends held_until during the run. So a frozen or dead instance loses the row.
CREATE TABLE belfry.sweep (
    job        text PRIMARY KEY,
    holder     uuid NOT NULL,
    held_until timestamptz,
    next_at    timestamptz NOT NULL
);

-- From sql/schema/queue_sweep.sql.

-- The counts of sweeps for a queue, since its creation. Only sweeps write this table.
CREATE TABLE belfry.queue_sweep (
    queue_id  bigint PRIMARY KEY REFERENCES belfry.queue (id) ON DELETE CASCADE,
    -- Deleted messages, by the rule that deleted them.
    retention bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    evicted   bigint NOT NULL DEFAULT 0,
    -- Deleted messages that a group had not consumed, or that had no group.
    unread    bigint NOT NULL DEFAULT 0,
    -- Messages that expired unread, counted once for each group.
    expired   bigint NOT NULL DEFAULT 0,
    -- Messages that a sweep moved the cursor of a group past unread, and did not delete because of a
    -- lease or a dead letter of another group. Counted once for each group.
    skipped   bigint NOT NULL DEFAULT 0
);

-- From sql/schema/stream.sql.

-- A query of a stream client: it reads the queue source, and keeps state for each partition of source.
-- The name is unique for the source. The queues need not exist, and their deletion keeps the query.
CREATE TABLE belfry.stream (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid         uuid NOT NULL UNIQUE,
    source      text NOT NULL,
    name        text NOT NULL,
    sink        text,
    config_hash text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (source, name)
);

-- From sql/schema/stream_state.sql.

-- The state of a stream in a partition of its source.
CREATE TABLE belfry.stream_state (
    stream_id    bigint NOT NULL REFERENCES belfry.stream ON DELETE CASCADE,
    partition_id bigint NOT NULL,
    key          text COLLATE "C" NOT NULL,
    value        json NOT NULL,
    window_end   double precision, -- The member windowEnd of value, if windowEnd is a number.
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (stream_id, partition_id, key)
);
CREATE INDEX stream_state_ripe ON belfry.stream_state (stream_id, partition_id, window_end) WHERE window_end IS NOT NULL;
CREATE INDEX stream_state_partition ON belfry.stream_state (partition_id);

-- From sql/schema/stream_cycle.sql.

-- Rows that cycles of streams lock. All cycles of one stream in one partition lock the same row.
CREATE TABLE belfry.stream_cycle (
    stripe integer PRIMARY KEY -- A hash of the stream and the partition. A cycle inserts a missing row.
);

-- From sql/schema/audit.sql.

-- The changes that operators made: one row for each HTTP request, and for each pause, resume or change
-- of a grant in SQL. See pkg/access/audit.
CREATE TABLE belfry.audit (
    id             uuid PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    subject        text, -- NULL without authentication.
    token_id       text,
    address        text NOT NULL,
    request_id     text NOT NULL,
    action         text NOT NULL,
    queue          text,
    partition      text,
    consumer_group text,
    transaction_id text,
    parameters     json NOT NULL,
    counts         json NOT NULL, -- The numbers of committed changes, even if the request then failed.
    result         text NOT NULL -- 'ok', or the code of the error.
);
CREATE INDEX audit_at ON belfry.audit (at, id);
CREATE INDEX audit_queue ON belfry.audit (queue, at, id);
CREATE INDEX audit_group ON belfry.audit (consumer_group, at, id);
CREATE INDEX audit_subject ON belfry.audit (subject, at, id);
CREATE INDEX audit_action ON belfry.audit (action, at, id);

-- From sql/schema/audit_undo.sql.

-- The old values of a change of an operator, so that the change can be undone: at most one row for each row of
-- belfry.audit. A change that changed nothing has no row. See pkg/engine/catalog/undo.go.
CREATE TABLE belfry.audit_undo (
    audit_id     uuid PRIMARY KEY REFERENCES belfry.audit (id) ON DELETE CASCADE,
    kind         text NOT NULL CHECK (kind IN ('options', 'pause', 'places', 'limits')),
    queue_id     bigint NOT NULL,
    group_id     bigint,
    partition_id bigint,
    -- The values before and after the change, by name. places: NULL, because belfry.audit_places has them.
    before       json,
    after        json,
    -- places: the number of moved cursors. If it is too large, no places are stored.
    moved        bigint NOT NULL DEFAULT 0,
    -- The audit row of a later seek of the same cursors. Its transaction deletes the places of this row.
    replaced_by  uuid,
    -- The audit row of the undo.
    undone_by    uuid
);
CREATE INDEX audit_undo_places ON belfry.audit_undo (group_id, partition_id) WHERE kind = 'places' AND replaced_by IS NULL AND undone_by IS NULL;

-- From sql/schema/audit_places.sql.

-- The positions of cursors before and after a seek: one row for each transaction of the seek. Only the latest seek of a
-- cursor has its positions here, so the table has at most a few numbers for each cursor.
CREATE TABLE belfry.audit_places (
    audit_id   uuid NOT NULL REFERENCES belfry.audit_undo (audit_id) ON DELETE CASCADE,
    first      bigint NOT NULL, -- The first of partitions, which ascend.
    partitions bigint[] NOT NULL,
    before     bigint[] NOT NULL,
    after      bigint[] NOT NULL,
    PRIMARY KEY (audit_id, first)
);

-- From sql/schema/redrive_job.sql.

-- A redrive that the instances run until its end. The instance that runs it has a lease. See pkg/engine/redrivejob.
CREATE TABLE belfry.redrive_job (
    id             uuid PRIMARY KEY, -- The id of its row in belfry.audit.
    queue          text NOT NULL,
    consumer_group text NOT NULL,
    -- The other filters, each NULL if it selects all. No dead letter is redriven that failed after failed_to.
    partition      text,
    transaction_id text,
    error          text,
    failed_from    timestamptz,
    failed_to      timestamptz NOT NULL,
    rate           bigint NOT NULL, -- Messages per second at most; 0: no limit.
    matched        bigint NOT NULL, -- The job redrives at most this number of dead letters.
    snapshot       pg_snapshot NOT NULL, -- Of the count. No dead letter is redriven that came later.
    counted_at     timestamptz NOT NULL,
    epoch          bigint NOT NULL, -- In another epoch the snapshot is not valid, and the job counts again.
    redriven       bigint NOT NULL DEFAULT 0, -- Written in the transaction of each page.
    subject        text,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at       timestamptz,
    state          text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'failed')),
    failure        text,
    lease_id       uuid,
    lease_until    timestamptz,
    instance       text
);
CREATE INDEX redrive_job_created ON belfry.redrive_job (created_at, id);
CREATE INDEX redrive_job_running ON belfry.redrive_job (lease_until) WHERE state = 'running';

-- From sql/schema/revoked_token.sql.

-- The ids (jti) of tokens that servers refuse. `belfry token revoke` writes it.
CREATE TABLE belfry.revoked_token (
    id         text PRIMARY KEY,
    expires_at timestamptz NOT NULL, -- 'infinity': the token does not expire, or its expiry is unknown.
    revoked_by name NOT NULL DEFAULT session_user,
    revoked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- From sql/schema/setting.sql.

-- Switches that apply to all servers. A switch without a row is off. The HTTP API writes a row and
-- notifies the channel belfry_settings.
CREATE TABLE belfry.setting (
    name       text PRIMARY KEY CHECK (name IN ('push_maintenance', 'pop_maintenance')),
    enabled    boolean NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- From sql/schema/spool.sql.

-- A spool keeps pushes on the disk of a server (pkg/engine/spool). A row has the size of one spool. The
-- server writes the row after a change, at most once a second, and deletes it when the spool is empty.
-- The row of a stopped server says what is left on its disk.
CREATE TABLE belfry.spool (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    messages   bigint NOT NULL,
    rejected   bigint NOT NULL,
    bytes      bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- From sql/schema/history.sql.

-- The counts of one instance for a queue and a group. A row covers one minute, or after the roll-up 15,
-- 60 or 360. A minute without events has no row. The rows of a deleted queue stay. '(other)' is the sum
-- of the queues above the limit of pkg/insight/history. Rows with consumer_group '' count pushes.
CREATE TABLE belfry.history (
    at                 timestamptz NOT NULL,
    minutes            smallint NOT NULL CHECK (minutes IN (1, 15, 60, 360)),
    instance           uuid NOT NULL,
    queue              text NOT NULL,
    consumer_group     text NOT NULL,
    push_requests      bigint NOT NULL,
    push_messages      bigint NOT NULL,
    pop_requests       bigint NOT NULL,
    pop_messages       bigint NOT NULL,
    pop_empty          bigint NOT NULL,
    ack_requests       bigint NOT NULL,
    ack_success        bigint NOT NULL,
    ack_failed         bigint NOT NULL,
    ack_retried        bigint NOT NULL,
    ack_refused        bigint NOT NULL,
    dead_letters       bigint NOT NULL,
    transactions       bigint NOT NULL,
    partitions_created bigint NOT NULL,
    partitions_deleted bigint NOT NULL,
    removed_retention  bigint NOT NULL,
    removed_completed  bigint NOT NULL,
    removed_evicted    bigint NOT NULL,
    -- Microseconds from commit to first delivery: the sum, the greatest value and the number of values.
    lag_sum            bigint NOT NULL,
    lag_max            bigint NOT NULL,
    lag_count          bigint NOT NULL,
    -- The same values as a histogram. Each element is a bucket of pkg/insight/history and its count: bucket * 2^40 + count.
    latency            bigint[] NOT NULL,
    -- Requests that waited at the end of the minute. NULL: the newest earlier value applies.
    parked             bigint,
    -- The backlog at counted_at: its unfinished messages, and when the oldest of them was stored. The row of consumer_group '' has
    -- the backlog of the queue. NULL: the newest earlier value applies. These values are the same at every instance.
    depth              bigint,
    oldest_at          timestamptz,
    counted_at         timestamptz,
    PRIMARY KEY (at, minutes, instance, queue, consumer_group)
);
CREATE INDEX history_minutes ON belfry.history (minutes, at) WHERE minutes < 360;
CREATE INDEX history_depth ON belfry.history (queue, consumer_group, counted_at DESC) WHERE depth IS NOT NULL;

-- From sql/schema/history_instance.sql.

-- The measurements of one instance. A row covers one minute. After the roll-up it has the means of 15, 60
-- or 360 minutes. Each minute and instance with a row in belfry.history has a row here too.
CREATE TABLE belfry.history_instance (
    at          timestamptz NOT NULL,
    minutes     smallint NOT NULL CHECK (minutes IN (1, 15, 60, 360)),
    instance    uuid NOT NULL,
    hostname    text NOT NULL,
    port        bigint NOT NULL,
    pid         bigint NOT NULL,
    cpu_user    float8 NOT NULL, -- cpu_user and cpu_system are percent of one core.
    cpu_system  float8 NOT NULL,
    rss_bytes   bigint NOT NULL,
    heap_bytes  bigint NOT NULL,
    goroutines  bigint NOT NULL,
    pool_size   bigint NOT NULL,
    pool_idle   bigint NOT NULL,
    pool_active bigint NOT NULL,
    db_errors   bigint NOT NULL,
    PRIMARY KEY (at, minutes, instance)
);
CREATE INDEX history_instance_minutes ON belfry.history_instance (minutes, at) WHERE minutes < 360;

-- From sql/schema/channel_key.sql.

-- The key of notifications (pkg/postgres/listen). It encrypts the names in a notification, and proves
-- that belfry.await or a server sent the notification.
CREATE TABLE belfry.channel_key (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    key    bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO belfry.channel_key DEFAULT VALUES;

-- From sql/functions/inbox/inbox_notify.sql.

-- The trigger on belfry.inbox: notifies the sequencer of new rows, at the commit. Postgres merges equal
-- notifications of a transaction into one.
--
-- Commits that notify run one after another in the whole cluster. So a producer sends no notification
-- while the sequencer is awake, because an awake sequencer reads the inbox without notifications.
--
-- 1. Advisory lock 10 is held exclusively while the sequencer is awake.
-- 2. A producer that sends no notification holds lock 8 (shared) until its transaction ends.
-- 3. The sequencer takes lock 8 exclusively before it sleeps. So it sleeps only after the transactions
--    of such producers have ended. pkg/engine/inbox proves that no row is lost.
--
-- A session with belfry.notify = off sends no notification and takes no lock. The sequencer then moves
-- its rows after another notification, or after dispatch.fallback_interval. PREPARE TRANSACTION needs
-- this setting. A WHEN clause would be planned for every statement, so the function reads the setting.
-- 1111837766 is "BELF" in ASCII.
CREATE FUNCTION belfry.inbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_awake boolean := false;
BEGIN
    -- This check is before the locks: a session with belfry.notify = off takes none.
    IF pg_catalog.lower(pg_catalog.current_setting('belfry.notify', true)) OPERATOR(pg_catalog.=) ANY ('{off,false,no,0}') THEN
        RETURN NULL;
    END IF;
    IF pg_catalog.pg_try_advisory_xact_lock_shared(1111837766, 8) THEN
        -- Lock 8 before lock 10. The same expression releases lock 10, so a cancelled statement cannot
        -- keep it.
        v_awake := CASE WHEN pg_catalog.pg_try_advisory_lock_shared(1111837766, 10)
                        THEN NOT pg_catalog.pg_advisory_unlock_shared(1111837766, 10) ELSE true END;
    END IF;
    IF v_awake THEN
        RETURN NULL;
    END IF;
    -- A full notification queue would fail the transaction.
    IF pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.97 THEN
        PERFORM pg_catalog.pg_notify('belfry_inbox', '');
    END IF;
    RETURN NULL;
END $$;

-- From sql/schema/inbox.sql.

-- Messages of producers that use only SQL. A committed row is a pushed message. The sequencer
-- (pkg/engine/inbox) moves the row into its partition in another transaction. So a producer's
-- transaction may stay open for long, and locks nothing that other sessions need.
CREATE TABLE belfry.inbox (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- Ascends in the order of the inserts.
    queue          text NOT NULL,
    partition      text DEFAULT 'Default', -- NULL means 'Default'.
    payload        json NOT NULL,
    transaction_id text,
    trace_id       uuid,
    visible_at     timestamptz,
    headers        json, -- An object of texts.
    tenant         text, -- The tenant of the partition, if this message creates it. NULL: none.
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(), -- The producer's top-level transaction.
    inserted_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_threshold = -1,
        vacuum_truncate = false, toast.vacuum_truncate = false); -- Truncation takes a lock that producers would wait for.
-- Finds the rows that were committed after a snapshot, without reading older, deleted rows.
CREATE INDEX inbox_xid ON belfry.inbox (xid);
CREATE TRIGGER inbox_notify AFTER INSERT ON belfry.inbox
    FOR EACH STATEMENT EXECUTE FUNCTION belfry.inbox_notify();

-- From sql/schema/outbox.sql.

-- The inbox rows of the calling transaction, for libraries that end an INSERT with RETURNING *. From
-- belfry.inbox a producer may read only ids, because the table also has messages of others.
CREATE VIEW belfry.outbox WITH (security_barrier) AS SELECT i.id, i.queue, i.partition, i.payload, i.transaction_id, i.trace_id, i.visible_at, i.headers, i.tenant
  FROM belfry.inbox i WHERE i.xid = pg_catalog.pg_current_xact_id_if_assigned();

-- From sql/schema/inbox_rejected.sql.

-- Inbox rows that the sequencer could not push. A row stays until an operator deletes it or
-- retries it (belfry.inbox_retry).
CREATE TABLE belfry.inbox_rejected (
    id             bigint PRIMARY KEY, -- The id of the row in the inbox.
    queue          text NOT NULL,
    partition      text NOT NULL,
    payload        json NOT NULL,
    transaction_id text,
    trace_id       uuid,
    visible_at     timestamptz,
    headers        json,
    tenant         text,
    inserted_at    timestamptz NOT NULL,
    rejected_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    code           text NOT NULL, -- invalid, too_large or queue_full.
    reason         text NOT NULL -- The error in words.
);

-- From sql/functions/schedule/schedule_notify.sql.

-- The trigger on belfry.schedule: notifies the servers at the commit, so that they learn the next
-- instant. A session with belfry.notify = off notifies nobody: the servers then learn of the change
-- after dispatch.fallback_interval.
CREATE FUNCTION belfry.schedule_notify() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) NOT IN ('off', 'false', 'no', '0')
       AND pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
        PERFORM pg_notify('belfry_schedules', '');
    END IF;
    RETURN NULL;
END $$;

-- From sql/schema/schedule.sql.

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

-- From sql/schema/schedules.sql.

-- The schedules. A role sees the schedules that it made, or that a role made whose rights it has. A role
-- that may read belfry.schedule sees all of them.
CREATE VIEW belfry.schedules WITH (security_barrier) AS
SELECT s.name, s.queue, s.partition, s.cron, s.every_seconds * interval '1 second' AS every, s.at, s.zone, s.starts, s.ends, s.jitter,
       s.missed, s.overlap_group, s.payload, s.headers, s.delay, s.paused, s.pause_reason,
       CASE WHEN NOT s.paused THEN s.next_at END AS next_at, s.last_at, s.last_transaction_id, s.error,
       pg_catalog.pg_get_userbyid(s.scheduled_by) AS scheduled_by, s.created_at, s.changed_at
  FROM belfry.schedule s
 WHERE pg_catalog.has_table_privilege('belfry.schedule', 'SELECT') OR pg_catalog.pg_has_role(s.scheduled_by, 'USAGE');

-- From sql/functions/attach/is_utf8.sql.

-- Reports whether a text can be converted to UTF-8. A database with another encoding may store texts
-- that cannot be converted. A call costs a subtransaction.
CREATE FUNCTION belfry.is_utf8(p_text text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pg_catalog.convert_to(p_text, 'UTF8');
    RETURN true;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN false;
END $$;

-- From sql/functions/attach/owns_table.sql.

-- Reports whether a role may see the attachment of a table: the owner of the table, a member of the
-- owner, or an admin. An admin is a role that may update belfry.attachment. Only an admin sees the
-- rows of a dropped table.
CREATE FUNCTION belfry.owns_table(p_target oid, p_role name) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.has_table_privilege(p_role, 'belfry.attachment', 'UPDATE')
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = p_target AND pg_catalog.pg_has_role(p_role, c.relowner, 'USAGE'))
$$;

-- From sql/functions/attach/forget_attachments.sql.

-- The trigger on belfry.attachment: deletes the attachments with events = '{}' or with a dropped table,
-- and failures without an attachment. It runs with the rights of the schema's owner, because producers
-- may not delete rows, and the row of a dropped table has no owner.
CREATE FUNCTION belfry.forget_attachments() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM belfry.attachment a WHERE a.id IN (
        SELECT g.id FROM belfry.attachment g
         WHERE g.events = '{}' OR NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = g.target) FOR UPDATE SKIP LOCKED);
    DELETE FROM belfry.attachment_failure f WHERE f.id IN (
        SELECT g.id FROM belfry.attachment_failure g
         WHERE NOT EXISTS (SELECT 1 FROM belfry.attachment a WHERE a.target = g.target AND a.queue = g.queue) FOR UPDATE SKIP LOCKED);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION belfry.forget_attachments() FROM PUBLIC;

-- From sql/functions/attach/trim_attachment_failures.sql.

-- The trigger on belfry.attachment_failure: keeps the newest 100 failures of each attachment, and
-- shortens long texts. It does not wait for locks. The next failure deletes the rows that another
-- transaction has locked now.
CREATE FUNCTION belfry.trim_attachment_failures() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR n IN REVERSE 2000 .. 1997 LOOP -- with encoding SQL_ASCII the cut may be inside a character
        NEW.message := left(NEW.message, n);
        EXIT WHEN belfry.is_utf8(NEW.message);
    END LOOP;
    DELETE FROM belfry.attachment_failure f WHERE f.id IN (
        SELECT h.id FROM belfry.attachment_failure h
         WHERE h.id IN (
                SELECT o.id FROM belfry.attachment_failure o
                 WHERE o.target = NEW.target AND o.queue = NEW.queue ORDER BY o.failed_at DESC, o.id DESC OFFSET 99)
           FOR UPDATE SKIP LOCKED);
    RETURN NEW;
EXCEPTION WHEN serialization_failure THEN -- another transaction deleted the row after the snapshot
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION belfry.trim_attachment_failures() FROM PUBLIC;

-- From sql/schema/attachment.sql.

-- Tables whose changes become messages of a queue. Triggers on the tables write the messages. A row
-- holds the arguments of the call of belfry.attach that created the triggers.
CREATE TABLE belfry.attachment (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target      regclass NOT NULL,
    queue       text NOT NULL,
    events      text[] NOT NULL, -- Empty: the attachment is being deleted.
    -- The columns whose values form the partition name; empty: one partition for all rows.
    key         text[] NOT NULL,
    condition   text,
    payload     text NOT NULL, -- row or changes.
    columns     text[], -- The columns in the payload; NULL: all.
    headers     text, -- An object or an expression for the headers; NULL: none.
    strict      boolean NOT NULL, -- If true, a statement fails when its messages cannot be written.
    attached_by name NOT NULL DEFAULT current_user,
    attached_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (target, queue)
);
ALTER TABLE belfry.attachment ENABLE ROW LEVEL SECURITY;
CREATE POLICY attachment_owner ON belfry.attachment USING (belfry.owns_table(target, current_user));
CREATE TRIGGER forget_attachments AFTER UPDATE ON belfry.attachment
    FOR EACH STATEMENT EXECUTE FUNCTION belfry.forget_attachments();

-- From sql/schema/attachment_failure.sql.

-- Statements on attached tables that succeeded although their messages could not be written.
CREATE TABLE belfry.attachment_failure (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target    regclass NOT NULL,
    queue     text NOT NULL,
    event     text NOT NULL,
    code      text NOT NULL,
    message   text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX attachment_failure_latest ON belfry.attachment_failure (target, queue, failed_at);
ALTER TABLE belfry.attachment_failure ENABLE ROW LEVEL SECURITY;
CREATE POLICY attachment_failure_owner ON belfry.attachment_failure USING (belfry.owns_table(target, current_user));
CREATE TRIGGER trim_attachment_failures BEFORE INSERT ON belfry.attachment_failure
    FOR EACH ROW EXECUTE FUNCTION belfry.trim_attachment_failures();

-- From sql/schema/attachments.sql.

-- The attached tables as an operator sees them. belfry.owns_table decides which tables a role sees.
--
-- triggers counts the enabled triggers; a complete attachment has one for each event. For a partitioned
-- table the count is one lower if the row trigger is missing, or if an owner of a partitioned table in
-- its tree may not execute the trigger function. A name that is not valid UTF-8 is shown by its oid.
CREATE VIEW belfry.attachments WITH (security_barrier) AS
SELECT CASE WHEN r.oid IS NULL THEN 'gone (' || a.target::oid || ')'
            WHEN NOT belfry.is_utf8(n.nspname || '.' || r.relname) THEN 'unreadable (' || a.target::oid || ')' ELSE format('%I.%I', n.nspname, r.relname) END AS "table",
       a.queue, a.events, a.key, a.condition, a.payload, a.columns, a.headers, a.strict, a.attached_by, a.attached_at,
       (SELECT greatest(count(*) FILTER (WHERE t.tgtype & 1 = 0) - CASE WHEN r.relkind = 'p' AND a.events <> '{delete}'
                     AND (count(*) FILTER (WHERE t.tgtype & 1 = 1) = 0 OR EXISTS (
                            SELECT 1 FROM pg_catalog.pg_partition_tree(a.target) AS m
                              JOIN pg_catalog.pg_class k ON k.oid = m.relid AND k.relkind = 'p'
                              JOIN pg_catalog.pg_trigger w ON w.tgrelid = k.oid AND w.tgtype & 1 = 1
                               AND w.tgname LIKE 'belfry\_' || left(md5(a.queue), 12) || '\_rows\_%'
                             WHERE NOT has_function_privilege(k.relowner, w.tgfoid, 'EXECUTE'))) THEN 1 ELSE 0 END, 0)
          FROM pg_catalog.pg_trigger t
         WHERE t.tgrelid = a.target AND t.tgenabled <> 'D' AND t.tgname LIKE 'belfry\_' || left(md5(a.queue), 12) || '\_%') AS triggers,
       (SELECT count(*) FROM belfry.attachment_failure f WHERE f.target = a.target AND f.queue = a.queue) AS failures,
       l.failed_at AS last_failed_at, l.message AS last_failure, a.id
  FROM belfry.attachment a
  LEFT JOIN pg_catalog.pg_class r ON r.oid = a.target
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
  LEFT JOIN LATERAL (
        SELECT f.failed_at, f.message FROM belfry.attachment_failure f
         WHERE f.target = a.target AND f.queue = a.queue
         ORDER BY f.failed_at DESC
         LIMIT 1) AS l ON true
 WHERE belfry.owns_table(a.target, current_user);

-- From sql/schema/queue_grant.sql.

-- A grant lets a role push to some queues, or consume some queues as some groups. belfry.grant_push,
-- belfry.grant_consume and the functions that revoke write it. While a kind has no row, Belfry does not
-- check it. A revoked grant stays as a row, so revoking the last grant does not allow every role.
CREATE TABLE belfry.queue_grant (
    kind           text NOT NULL CHECK (kind IN ('push', 'consume')),
    grantee        regrole NOT NULL,
    queue          text NOT NULL, -- queue and consumer_group are patterns; see belfry.matches.
    consumer_group text NOT NULL, -- '*' if the kind is push.
    granted_by     name NOT NULL,
    granted_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at     timestamptz,
    PRIMARY KEY (kind, grantee, queue, consumer_group)
);

-- From sql/schema/grants.sql.

-- The grants in force. A role sees its own grants, and the grants of each role whose rights it has. An
-- admin sees all grants. An admin is a role that may update belfry.queue_grant. kind is push or consume.
CREATE VIEW belfry.grants WITH (security_barrier) AS
SELECT pg_catalog.pg_get_userbyid(g.grantee) AS role, g.kind, g.queue, CASE WHEN g.kind = 'consume' THEN g.consumer_group END AS consumer_group,
       g.granted_by, g.granted_at, g.grantee::oid AS role_id
  FROM belfry.queue_grant g
 WHERE g.revoked_at IS NULL
   AND (pg_catalog.pg_has_role(g.grantee, 'USAGE') OR pg_catalog.has_table_privilege('belfry.queue_grant', 'UPDATE'));

-- From sql/schema/claim_row.sql.

-- One row of the result of belfry.claim. item says what the row describes, and only the columns of that
-- item are set. The rows of messages follow the row of their partition. The summary is last.
-- pkg/engine/store/internal/claim/result.go names the values of item and outcome.
CREATE TYPE belfry.claim_row AS (
    item           smallint, -- 1: a partition that was due.  2: a message.  3: the summary.
    partition_id   bigint,   -- for items 1 and 2
    -- The columns of item 1 begin here. outcome says what the claim did:
    -- 1: It delivered messages of the log.
    -- 2: It delivered redriven messages.
    -- 3: It delivered nothing and updated the cursor, usually because nothing is due any more.
    -- 4: It delivered nothing, because it found no visible message. The cursor is still due, and the
    --    caller must settle the cursor (store/settle).
    -- 5: It delivered nothing, because the queue or the group is paused.
    -- 6: The limits of the group allow no more. They allow a message at ready_at at the latest. The claim may
    --    have delivered messages, also of this partition.
    outcome        smallint,
    ready_at       timestamptz, -- of the cursor, after the claim; with a lease, the end of the lease
    -- A wake must follow the commit: ready_at is NULL, or redriven messages wait for a retry delay.
    needs_wake     boolean,
    -- The claim moved the cursor past some messages. expired counts the expired messages, and given_up
    -- the messages that had reached maxDeliveries. NULL: none.
    expired        bigint,
    given_up       bigint,
    skipped        bigint, -- The messages that had reached maxDeliveries and that the group skips. NULL: none.
    -- With autoAck: the data for an undo of the delivery. outcome 1: failures and attempts of the first
    -- message (store/unconsume). outcome 2: the deleted redrives (store/redrive_restore).
    undo           json,

    -- The columns of item 2.
    seq            bigint,
    id             uuid,
    transaction_id text,
    trace_id       uuid,
    payload        json,
    created_at     timestamptz,
    producer_sub   text,
    headers        json,
    encrypted      boolean,
    attempt        integer, -- deliveries under a lease, including this one; 0 with autoAck

    -- The columns of item 3.
    group_exists   boolean,     -- the group, its queue and its cursor in the requested partition exist
    was_due        boolean,     -- a cursor was due; another session may have locked it
    next_ready_at  timestamptz, -- when the next cursor is due, if none was due
    database_now   timestamptz, -- the claim compared ready_at with this instant
    -- No cursor has a ready_at before due_floor, or between database_now and next_floor. NULL: unknown.
    due_floor      timestamptz,
    next_floor     timestamptz
);

-- From sql/schema/ack_row.sql.

-- One row of the result of belfry.apply_acks. item says what the row describes, and only the columns of
-- that item are set. pkg/engine/store/internal/ack/result.go names the values of item and verdict.
CREATE TYPE belfry.ack_row AS (
    -- 1: an ack with one of the verdicts below.
    -- 2: a cursor that was locked. Its acks without a row of item 1 were applied.
    -- 3: a group (group_id) whose breaker changed, or whose probe ended. Its waiting requests must ask again after the commit.
    item         smallint,
    entry        integer, -- For item 1: the index of the ack.
    -- 1: The lease of the ack is not the live lease of the cursor.
    -- 2: An earlier message failed in the same call, so this message is redelivered.
    -- 3: The status has no effect.
    -- 4: The ack was applied, and the message is a dead letter.
    -- 5: The cursor is blocked, so only an operator or a dlq ack can finish the message.
    -- 6: The ack was applied, and the message has blocked the cursor.
    -- 7: The ack was applied, and the message is skipped.
    -- 8: The ack asks for a pause of its group, and the group has no breaker.
    verdict      smallint,
    cursor_index integer, -- This column and all later columns are for item 2.
    partition_id bigint,
    group_id     bigint,
    lease_before uuid, -- The live lease before the acks.
    -- The call that ended the lease. 0: no lease was live. NULL: the lease is still live.
    ended_by     integer,
    -- The new ready_at of the cursor, and the seconds until then. They are set if the acks ended the
    -- lease, or changed the cursor while no lease was live.
    ready_at     timestamptz,
    ready_in     float8,
    -- A wake must follow the commit: ready_at is NULL, or the cursor has or had redriven messages.
    needs_wake   boolean,
    -- The acks ended a lease of a group whose limits count leases, so a claim that they refused may succeed.
    gives_room   boolean
);

-- From sql/schema/ack_change.sql.

-- The changes that acks make to one cursor. belfry.apply_acks collects one row for each cursor and then
-- writes all cursors. lease_before and ended_by mean the same as in belfry.ack_row.
CREATE TYPE belfry.ack_change AS (
    place            tid, -- the ctid of the locked cursor
    cursor_index     integer,
    partition_id     bigint,
    group_id         bigint,
    lease_before     uuid,
    ended_by         integer,
    released         boolean, -- the acks left no live lease, so apply_acks computes ready_at
    committed        bigint,
    skip             int8multirange,
    failures         integer,
    attempts         integer,
    retry_at         timestamptz,
    settled          integer, -- the number of redriven messages that the acks settled
    settled_of_lease integer, -- the number of settled messages that the lease had delivered
    judged_at        timestamptz,
    limits_id        bigint -- the limits of the group
);

-- From sql/functions/claim/due_at.sql.

-- Returns the instant at which the first message after committed becomes visible, or now if that instant
-- has passed. ready_at calls this function for queues with a delay or a window, and for partitions with
-- delayed messages.
CREATE FUNCTION belfry.due_at(
    partition_id bigint, committed bigint, last_push_at timestamptz, delay_seconds bigint, window_seconds bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(
        statement_timestamp(),
        CASE WHEN window_seconds > 0 THEN last_push_at + make_interval(secs => window_seconds) END,
        (SELECT greatest(m.visible_at,
                         CASE WHEN delay_seconds > 0 THEN m.created_at + make_interval(secs => delay_seconds) END)
           FROM belfry.message m
          WHERE m.partition_id = due_at.partition_id AND m.seq > due_at.committed
          ORDER BY m.seq LIMIT 1))
$$;

-- From sql/functions/claim/redrives_ready_at.sql.

-- Returns the instant at which the first redriven message of a cursor, in the order of the log, is
-- ready, or now if that instant has passed.
CREATE FUNCTION belfry.redrives_ready_at(p_partition bigint, p_group bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(statement_timestamp(), (
        SELECT r.retry_at FROM belfry.redrive r
         WHERE r.partition_id = p_partition AND r.group_id = p_group
         ORDER BY r.seq LIMIT 1))
$$;

-- From sql/functions/claim/ready_at.sql.

-- Returns ready_at for a cursor without a live lease: NULL if no message is left, now if a message was
-- redriven or the first message is visible, and otherwise the instant at which the first message becomes
-- visible. Every statement that writes cursor.ready_at uses this rule, also during a pause; see
-- belfry.change_pause. The body is one expression, so the planner inlines it. This form does not read
-- belfry.redrive, and treats every redriven message as ready now.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, retry_at timestamptz, redrives integer
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN $9 > 0 THEN statement_timestamp()
        WHEN $3 <= $2 THEN NULL
        WHEN $6 = 0 AND $7 = 0 AND ($5 IS NULL OR $5 <= statement_timestamp()) THEN greatest(statement_timestamp(), $8)
        ELSE greatest(belfry.due_at($1, $2, $4, $6, $7), $8)
    END
$$;

-- Returns the earlier of two instants: when the redriven messages are ready after their retry delay, and
-- when the log is ready. It reads belfry.redrive, so the caller must change belfry.redrive in an earlier
-- statement.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, retry_at timestamptz, redrives integer, group_id bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT least(
        CASE WHEN $9 > 0 THEN belfry.redrives_ready_at($1, $10) END,
        belfry.ready_at($1, $2, $3, $4, $5, $6, $7, $8, NULL))
$$;

-- From sql/functions/claim/delivery_bytes.sql.

-- Returns the bytes of one message in the answer of a pop: its payload, its names and headers, and
-- 1024 for the rest. If exact is false, a compressed payload counts 256 times its compressed size, because pglz and
-- lz4 expand a value at most 256 times. The body is one expression, so the planner inlines it.
CREATE FUNCTION belfry.delivery_bytes(payload json, transaction_id text, producer_sub text, headers json, exact boolean)
RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT 1024 + octet_length($2) + coalesce(octet_length($3), 0) + coalesce(octet_length($4::text), 0) + CASE
        WHEN pg_column_compression($1) IS NULL THEN pg_column_size($1)
        WHEN $5 THEN octet_length($1::text)
        ELSE 256 * least(pg_column_size($1), 8000000) END
$$;

-- From sql/functions/ack/lease_begin.sql.

-- Returns the begin of a lease, which is part of an id of version 7. A SQL consumer's lease has no begin.
CREATE FUNCTION belfry.lease_begin(p_lease uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN substr(p_lease::text, 15, 1) = '7'
                THEN to_timestamp(('x0000' || translate(left(p_lease::text, 13), '-', ''))::bit(64)::bigint / 1000.0) END
$$;

-- From sql/functions/ack/ack.sql.

-- Acknowledges messages that belfry.pop returned. message_ids NULL: all messages that the lease still
-- holds. If the lease is over, the call raises BF010. Then the transaction rolls back, so the effects of
-- two consumers never commit for one message. The values of status:
--
--   completed  The messages, and all earlier messages of the partition, are finished.
--   failed     The first of the messages and all later messages are delivered again, after the queue's
--              retryDelay or after retry_after. A message without a retry left becomes a dead letter.
--   retry      The messages are delivered again, at once or after retry_after. No failure is counted. pause_group opens the
--              breaker of the group: no pop of the group returns messages for at least this time.
--   dlq        The messages become dead letters.
--
-- apply_acks has the rules. Locks the cursor. Returns the number of acknowledged messages that the lease held.
CREATE FUNCTION belfry.ack(
    lease uuid, message_ids uuid[] DEFAULT NULL, status text DEFAULT 'completed', error text DEFAULT NULL, retry_after interval DEFAULT NULL,
    pause_group interval DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_status smallint := CASE ack.status WHEN 'completed' THEN 1 WHEN 'success' THEN 1 WHEN 'failed' THEN 2 WHEN 'dlq' THEN 3 WHEN 'retry' THEN 4 END;
    v_pause bigint := extract(epoch FROM retry_after) * 1000;
    v_group_pause bigint := extract(epoch FROM pause_group) * 1000;
    v_held bigint[]; -- the given messages that the lease still holds
    v_acked bigint[];
    k record;
    r record;
BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. If belfry.pop returned no rows, there is nothing to acknowledge.';
    ELSIF v_status IS NULL THEN
        RAISE EXCEPTION 'the status % is not known', quote_nullable(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''completed'', ''failed'', ''retry'' or ''dlq''.';
    ELSIF retry_after IS NOT NULL AND v_status NOT IN (2, 4) OR v_pause NOT BETWEEN 0 AND 31622400000 THEN
        RAISE EXCEPTION 'retry_after is % with the status %', retry_after, quote_literal(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give 0 to 366 days, and only with the status ''failed'' or ''retry''.';
    ELSIF pause_group IS NOT NULL AND (v_status <> 4 OR v_group_pause NOT BETWEEN 1 AND 86400000) THEN
        RAISE EXCEPTION 'pause_group is % with the status %', pause_group, quote_literal(status) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give up to 24 hours, and only with the status ''retry''.';
    END IF;
    PERFORM convert_to(error, 'UTF8'); -- fails here, so that the list of dead letters cannot fail
    PERFORM belfry.check_lease(lease);
    -- If several cursors have the lease, the HTTP API created it: a lease of belfry.pop has one cursor.
    IF (SELECT count(*) FROM belfry.cursor c WHERE c.lease_id = ack.lease) > 1 THEN
        RAISE EXCEPTION 'lease % covers several partitions', lease USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The HTTP API created the lease. Acknowledge the messages through the HTTP API.';
    END IF;
    SELECT c.partition_id, c.group_id, c.lease_until > clock_timestamp() AS live, c.lease_end, c.committed, c.skip
      INTO k
      FROM belfry.cursor c
     WHERE c.lease_id = ack.lease
     LIMIT 1
       FOR NO KEY UPDATE;
    IF k.live IS NOT TRUE THEN
        PERFORM belfry.raise_lease_lost(lease);
    END IF;
    SELECT array_agg(h.seq ORDER BY h.seq) INTO v_held
      FROM (SELECT m.seq, m.id FROM belfry.message m
             WHERE m.partition_id = k.partition_id AND m.seq > k.committed AND m.seq <= k.lease_end AND (k.skip IS NULL OR NOT m.seq <@ k.skip)
            UNION ALL
            SELECT d.seq, (SELECT m.id FROM belfry.message m WHERE m.partition_id = k.partition_id AND m.seq = d.seq)
              FROM belfry.redrive d
             WHERE k.lease_end < 0 AND d.partition_id = k.partition_id AND d.group_id = k.group_id AND d.lease_id = ack.lease) AS h
     WHERE message_ids IS NULL OR h.id = ANY (message_ids);
    -- An ack of the last message completes all. The message at the end of the lease may be deleted.
    v_acked := CASE WHEN v_status > 1 OR k.lease_end < 0 THEN v_held
                    WHEN message_ids IS NULL THEN ARRAY[k.lease_end]
                    ELSE v_held[cardinality(v_held):] END;
    IF v_acked IS NULL THEN
        RETURN 0;
    END IF;
    SELECT bool_or(a.verdict = 1) AS lost, bool_or(a.verdict = 8) AS no_breaker, bool_or(a.item = 2) AS found, bool_or(a.ended_by IS NOT NULL) AS released,
           bool_or(a.gives_room) AS gives_room INTO r
      FROM (SELECT p.id, p.uid FROM belfry.partition p
             WHERE p.id >= k.partition_id AND p.id <= k.partition_id
             ORDER BY p.id DESC LIMIT 1) AS p
      JOIN belfry.consumer_group g ON g.id = k.group_id
     CROSS JOIN LATERAL (SELECT ARRAY[cardinality(v_acked)] AS n) AS e
     CROSS JOIN LATERAL belfry.apply_acks(
            ARRAY[p.id], ARRAY[p.uid], ARRAY[g.name], e.n, array_fill(1, e.n), v_acked, array_fill(ack.lease, e.n),
            array_fill(v_status, e.n), array_fill(convert_to(error, 'UTF8'), e.n),
            array_fill(v_pause, e.n), NULL, true, false,
            CASE WHEN v_status > 1 THEN array_fill('the SQL role ' || session_user, e.n) END, NULL,
            CASE WHEN v_group_pause IS NOT NULL THEN array_fill(v_group_pause, e.n) END) AS a;
    IF r.lost OR r.found IS NOT TRUE THEN -- the lease has just ended, or the group is being deleted
        PERFORM belfry.raise_lease_lost(lease);
    ELSIF r.no_breaker THEN
        RAISE EXCEPTION 'the consumer group has no breaker, so pause_group cannot pause it' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Set the limit breaker of the group, or leave out pause_group.';
    ELSIF r.released THEN
        PERFORM belfry.announce_ready(k.group_id, k.partition_id);
    END IF;
    IF r.gives_room THEN
        PERFORM belfry.announce_room(k.group_id);
    END IF;
    RETURN coalesce(cardinality(v_held), 0);
END $$;
REVOKE ALL ON FUNCTION belfry.ack(uuid, uuid[], text, text, interval, interval) FROM PUBLIC;

-- From sql/functions/ack/add_outcome.sql.

-- Adds completed messages or failed deliveries to an outcome, in the order in which they happened.
CREATE FUNCTION belfry.add_outcome(p_outcome belfry.outcome, p_completed bigint, p_failed bigint, p_error bytea) RETURNS belfry.outcome
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    p_outcome.completed := coalesce(p_outcome.completed, 0) + p_completed;
    p_outcome.failed := coalesce(p_outcome.failed, 0) + p_failed;
    p_outcome.run := CASE WHEN p_completed > 0 THEN 0 ELSE coalesce(p_outcome.run, 0) + p_failed END;
    p_outcome.error := coalesce(convert_from(p_error, 'UTF8'), p_outcome.error);
    RETURN p_outcome;
END $$;

-- From sql/functions/ack/apply_acks.sql.

-- Applies acknowledgments: locks their cursors, judges the acks by the rules below, and writes the
-- changes. The HTTP API (store/ack_apply) and belfry.ack call this function.
--
--   By cursor:
--   p_partitions, p_partition_uids, p_groups  A partition whose uid differs counts as missing: after a
--                   restore, another partition can have the same id.
--   p_last_entries  The index of the last entry. A cursor without entries is only locked.
--   By entry, sorted by cursor, call and seq:
--   p_calls         The call, from 1. Each call is judged as if it had its own transaction.
--   p_seqs          The message. One entry with the last message is enough for the completed acks of
--                   one call and one lease, unless the lease delivered redriven messages.
--   p_leases        The zero UUID: the ack is not fenced.
--   p_statuses      0 no effect, 1 completed, 2 failed, 3 dlq, 4 retry
--   p_errors        UTF-8 texts for dead letters. An empty array: none.
--   p_pauses        For failed and retry: the milliseconds until the next delivery. NULL: the retry delay
--                   of the queue for failed, no delay for retry. An empty array: NULL for each.
--   p_patience      The lock_timeout from here on. NULL: unchanged.
--   p_sql_consumer  The caller is belfry.ack. No wake can follow its commit. So a drained cursor stays
--                   marked ready. The next pop settles the cursor, or a server does after the notification.
--   p_alone         The transaction has one cursor and locks nothing else; see hold_drained.
--   p_consumers     By entry: who sent a failed ack, for belfry.attempt. An empty array: unknown for each.
--   p_instance      The instance, for belfry.attempt.
--   p_group_pauses  By entry, only for retry: the milliseconds for which the breaker of the group opens. An ack with a pause is refused
--                   if the group has no breaker. NULL, or an empty array: none.
--
-- The rules for the acks of one call and one cursor:
--
--   1. An ack is refused if its lease is not the live lease of the cursor.
--   2. completed moves the cursor forward to the message. Acks of finished messages succeed.
--   3. The first failed ack with retries left, or the first retry, stops the cursor and ends the
--      lease: its message and all later ones are redelivered. So completed acks of later messages
--      are refused. A failed ack counts a failure and starts the retry delay. If the acks of one call
--      give several pauses, the longest applies.
--   4. A failed ack without retries left, or dlq, makes a dead letter. The cursor skips the message,
--      but does not move past unfinished messages before it. With onExhausted = 'skip', a failed ack
--      without retries left makes no dead letter. With onExhausted = 'block', it stops the cursor like
--      rule 3 and blocks it. Until belfry.unblock, acks of unfinished messages are refused, except dlq.
--   5. The lease ends when the cursor reaches lease_end.
--   6. An ack of a redriven message settles only that message and does not move the cursor. A lease of
--      redriven messages ends when all of them are settled, or with the first failed ack or retry. A
--      redriven message without retries left is out of order already, so 'block' means a dead letter. An
--      ack without a lease is for the redriven message if the lease of the cursor delivered it, or if
--      the cursor had passed or skipped it before the call.
--
-- Locks the cursors in (partition, group) order, and reads the newest version of each row; see
-- sql/schema/partition.sql.
CREATE FUNCTION belfry.apply_acks(
    p_partitions bigint[], p_partition_uids uuid[], p_groups text[], p_last_entries integer[],
    p_calls integer[], p_seqs bigint[], p_leases uuid[], p_statuses smallint[], p_errors bytea[], p_pauses bigint[],
    p_patience text, p_sql_consumer boolean DEFAULT false, p_alone boolean DEFAULT false,
    p_consumers text[] DEFAULT NULL, p_instance text DEFAULT NULL, p_group_pauses bigint[] DEFAULT NULL
) RETURNS SETOF belfry.ack_row LANGUAGE plpgsql AS $$
DECLARE
    c_unfenced constant uuid := '00000000-0000-0000-0000-000000000000';
    c_completed constant smallint := 1;
    c_failed constant smallint := 2;
    c_dlq constant smallint := 3;
    v_patience text;
    k record;
    v_now timestamptz;
    v_changes belfry.ack_change[];
    v_tried belfry.attempt[]; -- the failed deliveries
    v_outcomes belfry.outcome[]; -- for breakers
    v_outcome belfry.outcome; -- of the cursor
    -- The state of the cursor.
    v_lease uuid; -- the live lease
    v_committed bigint;
    v_skip int8multirange;
    v_failures integer;
    v_attempts integer;
    v_retry_at timestamptz;
    -- The changes of all calls to the cursor.
    v_changed boolean;
    v_released boolean;
    v_ended_by integer;
    v_settled int8multirange; -- redriven messages
    v_settled_count integer;
    v_settled_of_lease integer;
    v_redeliver boolean; -- a redriven message failed
    -- The state of the current call.
    v_call integer;
    v_committed_before bigint;
    v_parked bigint[]; -- messages to skip from now on
    v_settling bigint[]; -- redriven messages that the call settles
    v_touched boolean; -- the call changes the cursor
    v_stopped boolean; -- rule 3 stopped the cursor
    v_failed boolean; -- the call has a failed ack that counts a failure
    v_blocked boolean; -- a failed ack without retries left has blocked the cursor
    v_exhausted text; -- what happens to a message without retries left
    v_pause bigint; -- the longest pause that an ack of the call gives
    -- The state of the current ack.
    v_status smallint;
    v_seq bigint;
    v_verdict smallint;
    v_redrive_failures integer;
    v_redelivered boolean; -- the lease delivered the redriven message; NULL: the message is not redriven
BEGIN
    v_patience := CASE WHEN p_patience IS NOT NULL THEN set_config('lock_timeout', p_patience, true) END;
    FOR k IN
        SELECT w.ord, w.retry_limit, w.retry_delay, w.retry_backoff, w.retry_delay_max, w.limits_id, c.*
          FROM (SELECT w.ord, w.partition_id, g.id AS group_id, g.limits_id, q.retry_limit, q.retry_delay, q.retry_backoff, q.retry_delay_max
                  FROM unnest(p_partitions, p_partition_uids, p_groups) WITH ORDINALITY AS w(partition_id, uid, group_name, ord)
                 CROSS JOIN LATERAL (
                        SELECT p.uid, p.queue_id FROM belfry.partition p
                         WHERE p.id >= w.partition_id AND p.id <= w.partition_id
                         ORDER BY p.id DESC LIMIT 1) AS p
                 CROSS JOIN LATERAL (
                        SELECT q.retry_limit, q.retry_delay, q.retry_backoff, q.retry_delay_max
                          FROM belfry.queue q WHERE q.id = p.queue_id AND (q.deleted_at IS NULL OR p_sql_consumer) OFFSET 0) AS q
                 CROSS JOIN LATERAL (SELECT g.id, g.limits_id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND g.name = w.group_name OFFSET 0) AS g
                 WHERE p.uid = w.uid
                 ORDER BY w.partition_id, g.id) AS w
         CROSS JOIN LATERAL (
                SELECT c.ctid, c.partition_id, c.group_id, c.committed, c.skip, c.failures, c.attempts, c.lease_id, c.lease_until,
                       coalesce(c.lease_end, 0) AS lease_end, coalesce(c.redrives, 0) AS redrives, c.retry_at
                  FROM belfry.cursor c
                 WHERE c.partition_id = w.partition_id AND c.group_id >= w.group_id AND c.group_id <= w.group_id
                 ORDER BY c.group_id DESC LIMIT 1
                   FOR NO KEY UPDATE) AS c
    LOOP
        v_now := clock_timestamp();
        v_lease := CASE WHEN k.lease_until > v_now THEN k.lease_id END;
        v_committed := k.committed;
        v_skip := k.skip + '{}'; -- + '{}' unpacks the stored value once, and not at each use
        v_failures := k.failures;
        v_attempts := k.attempts;
        v_retry_at := k.retry_at;
        v_blocked := k.retry_at = belfry.blocked();
        v_exhausted := CASE WHEN k.limits_id IS NULL THEN 'deadLetter' END;
        v_changed := false;
        v_released := false;
        v_ended_by := CASE WHEN v_lease IS NULL THEN 0 END;
        v_settled := '{}';
        v_settled_count := 0;
        v_settled_of_lease := 0;
        v_redeliver := false;
        v_outcome := NULL;
        v_call := 0;
        FOR i IN coalesce(p_last_entries[k.ord - 1], 0) + 1 .. coalesce(p_last_entries[k.ord], 0) LOOP
            -- A call begins.
            IF p_calls[i] <> v_call THEN
                v_call := p_calls[i];
                v_committed_before := v_committed;
                v_parked := NULL;
                v_settling := NULL;
                v_touched := false;
                v_stopped := false;
                v_failed := false;
                v_pause := NULL;
            END IF;

            -- Judge the ack.
            v_status := p_statuses[i];
            v_seq := p_seqs[i];
            v_verdict := CASE WHEN v_status = 0 THEN 3 END;
            v_redelivered := NULL;
            IF k.redrives > 0 THEN
                SELECT x.failures, coalesce(x.lease_id = k.lease_id, false) INTO v_redrive_failures, v_redelivered
                  FROM belfry.redrive x
                 WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
            END IF;
            IF p_leases[i] <> c_unfenced AND p_leases[i] IS DISTINCT FROM v_lease THEN
                v_verdict := 1; -- rule 1
            ELSIF p_group_pauses[i] IS NOT NULL AND NOT belfry.has_breaker(k.limits_id) THEN
                v_verdict := 8;
            ELSIF v_status = 0 OR (v_seq <@ v_settled OR v_seq = v_settling[cardinality(v_settling)])
                AND (k.lease_end < 0 OR p_leases[i] = c_unfenced) THEN
                NULL; -- no effect, or settled before
            ELSIF v_redelivered OR v_redelivered IS NOT NULL AND p_leases[i] = c_unfenced
                AND (v_seq <= v_committed_before OR v_seq <@ v_skip) THEN
                -- A redriven message (rule 6).
                IF v_status IN (c_completed, c_dlq) OR v_status = c_failed AND v_redrive_failures >= k.retry_limit THEN
                    v_settling := array_append(v_settling, v_seq);
                    v_settled_of_lease := v_settled_of_lease + v_redelivered::integer;
                    IF k.limits_id IS NOT NULL AND v_status <> c_dlq THEN
                        v_outcome := belfry.add_outcome(v_outcome, (v_status = c_completed)::integer, (v_status = c_failed)::integer, p_errors[i]);
                    END IF;
                    DELETE FROM belfry.redrive x WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
                    IF v_status = c_failed THEN
                        v_exhausted := coalesce(v_exhausted, belfry.on_exhausted(k.group_id));
                    END IF;
                    IF v_status = c_failed AND v_exhausted = 'skip' THEN
                        v_verdict := 7;
                    ELSIF v_status <> c_completed THEN
                        v_verdict := 4;
                        PERFORM belfry.park(k.partition_id, k.group_id, v_seq, v_redrive_failures + (v_status = c_failed)::integer, p_errors[i]);
                    END IF;
                ELSE
                    v_redeliver := true;
                    IF k.limits_id IS NOT NULL AND v_status = c_failed THEN
                        v_outcome := belfry.add_outcome(v_outcome, 0, 1, p_errors[i]);
                    ELSIF k.limits_id IS NOT NULL AND p_group_pauses[i] IS NOT NULL THEN
                        v_outcome := belfry.add_outcome(v_outcome, 0, 0, p_errors[i]);
                        v_outcome.pause := greatest(v_outcome.pause, p_group_pauses[i]);
                    END IF;
                    IF v_status = c_failed OR p_pauses[i] IS NOT NULL THEN
                        UPDATE belfry.redrive x
                           SET failures = x.failures + (v_status = c_failed)::integer,
                               retry_at = v_now + coalesce(p_pauses[i] * interval '1 millisecond',
                                   belfry.retry_delay(k.retry_delay, k.retry_backoff, k.retry_delay_max, x.failures + 1))
                         WHERE x.partition_id = k.partition_id AND x.group_id = k.group_id AND x.seq = v_seq;
                    END IF;
                END IF;
            ELSIF k.lease_end < 0 AND p_leases[i] = v_lease THEN
                NULL; -- settled before
            ELSIF v_blocked AND NOT v_stopped AND v_status <> c_dlq AND v_seq > v_committed THEN
                v_verdict := 5; -- rule 4
            ELSIF v_status = c_dlq OR v_status = c_failed AND v_seq > v_committed AND NOT v_stopped AND v_failures >= k.retry_limit THEN
                -- Rule 4.
                v_touched := true;
                IF v_status = c_failed THEN
                    v_exhausted := coalesce(v_exhausted, belfry.on_exhausted(k.group_id));
                END IF;
                IF k.limits_id IS NOT NULL AND v_status = c_failed AND (v_seq <@ v_skip) IS NOT TRUE THEN
                    v_outcome := belfry.add_outcome(v_outcome, 0, 1, p_errors[i]);
                END IF;
                IF v_status = c_failed AND v_exhausted = 'block' AND (v_seq <@ v_skip) IS NOT TRUE THEN
                    v_verdict := 6;
                    v_stopped := true;
                    v_failed := true;
                    v_blocked := true;
                ELSE
                    v_verdict := CASE WHEN v_status = c_failed AND v_exhausted = 'skip' THEN 7 ELSE 4 END;
                    IF (v_seq <@ v_skip) IS NOT TRUE THEN
                        IF v_verdict = 4 THEN
                            PERFORM belfry.park(k.partition_id, k.group_id, v_seq, v_failures, p_errors[i]);
                        END IF;
                        IF v_seq > v_committed THEN
                            v_parked := array_append(v_parked, v_seq);
                        END IF;
                    END IF;
                END IF;
            ELSIF v_seq <= v_committed THEN
                NULL; -- finished before
            ELSIF v_status = c_completed AND v_stopped THEN
                v_verdict := 2; -- rule 3
            ELSE
                v_touched := true;
                IF k.limits_id IS NOT NULL THEN
                    IF v_status = c_completed THEN
                        v_outcome := belfry.add_outcome(v_outcome, v_seq - v_committed, 0, NULL);
                    ELSIF p_group_pauses[i] IS NOT NULL THEN
                        v_outcome := belfry.add_outcome(v_outcome, 0, 0, p_errors[i]);
                        v_outcome.pause := greatest(v_outcome.pause, p_group_pauses[i]);
                    ELSIF v_status = c_failed AND NOT v_failed AND v_lease IS NOT NULL THEN -- the failure that the cursor counts too
                        v_outcome := belfry.add_outcome(v_outcome, 0, 1, p_errors[i]);
                    END IF;
                END IF;
                IF v_status = c_completed THEN
                    v_committed := v_seq;
                    v_failures := 0;
                ELSE
                    v_stopped := true;
                    v_pause := greatest(v_pause, p_pauses[i]);
                    v_failed := v_failed OR v_status = c_failed;
                END IF;
            END IF;
            IF v_status > c_completed AND (v_verdict IS NULL OR v_verdict IN (4, 6, 7)) AND (v_redelivered IS NOT NULL OR v_seq > k.committed) THEN
                v_tried := array_append(v_tried, ROW(k.partition_id, v_seq, k.group_id, 0,
                    CASE WHEN v_redelivered OR v_seq <= k.lease_end THEN belfry.lease_begin(v_lease) END, v_now, v_status, v_lease,
                    convert_from(p_errors[i], 'UTF8'), p_consumers[i], p_instance)::belfry.attempt);
            END IF;
            IF v_verdict IS NOT NULL THEN
                RETURN NEXT ROW(1, i, v_verdict, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::belfry.ack_row;
            END IF;

            -- After the last ack of the call: move the cursor past dead letters, count a failure, and
            -- end the lease.
            CONTINUE WHEN i < p_last_entries[k.ord] AND p_calls[i + 1] = v_call;
            IF v_touched THEN
                v_changed := true;
                IF v_parked IS NOT NULL THEN
                    v_skip := coalesce(v_skip, '{}') + (SELECT range_agg(int8range(s.seq, s.seq + 1)) FROM unnest(v_parked) AS s(seq));
                END IF;
                IF v_skip IS NOT NULL THEN
                    v_committed := belfry.passed(v_committed, v_skip);
                    v_skip := belfry.skip_beyond(v_skip, v_committed);
                END IF;
                IF v_committed > v_committed_before THEN
                    v_failures := 0;
                    v_retry_at := NULL;
                    v_blocked := v_blocked AND v_stopped; -- otherwise a dlq ack has finished the message
                    -- The new first message was delivered once if it is in the delivered batch.
                    v_attempts := CASE WHEN v_committed >= k.lease_end AND (k.lease_end >= 0 OR v_lease IS NULL) THEN 0
                                       ELSE least(v_attempts, 1) END;
                END IF;
                IF v_failed AND v_lease IS NOT NULL THEN
                    v_failures := v_failures + 1;
                    v_retry_at := v_now + belfry.retry_delay(k.retry_delay, k.retry_backoff, k.retry_delay_max, v_failures);
                END IF;
                IF v_pause IS NOT NULL THEN
                    v_retry_at := v_now + v_pause * interval '1 millisecond';
                END IF;
                IF v_blocked THEN
                    v_retry_at := belfry.blocked();
                END IF;
            END IF;
            IF v_settling IS NOT NULL THEN
                v_settled := v_settled + (SELECT range_agg(int8range(s.seq, s.seq + 1)) FROM unnest(v_settling) AS s(seq));
                v_settled_count := v_settled_count + cardinality(v_settling);
            END IF;
            IF v_touched AND (v_stopped OR v_lease IS NULL OR k.lease_end >= 0 AND v_committed >= k.lease_end)
               OR v_redeliver OR v_settled_count > 0 AND (v_lease IS NULL OR k.lease_end < 0 AND v_settled_of_lease >= -k.lease_end)
            THEN
                v_released := true;
                IF v_lease IS NOT NULL THEN
                    v_lease := NULL;
                    v_ended_by := v_call;
                END IF;
            END IF;
        END LOOP;

        IF v_outcome.completed IS NOT NULL THEN
            v_outcome.group_id := k.group_id;
            v_outcome.limits_id := k.limits_id;
            v_outcome.partition_id := k.partition_id;
            v_outcome.lease_id := CASE WHEN k.lease_until > v_now THEN k.lease_id END;
            v_outcomes := array_append(v_outcomes, v_outcome);
        END IF;
        IF v_changed OR v_redeliver OR v_settled_count > 0 THEN
            v_changes := array_append(v_changes, ROW(k.ctid, k.ord, k.partition_id, k.group_id, CASE WHEN k.lease_until > v_now THEN k.lease_id END,
                v_ended_by, v_released, v_committed, v_skip, v_failures, v_attempts, v_retry_at, v_settled_count, v_settled_of_lease,
                v_now, k.limits_id)::belfry.ack_change);
        ELSE
            RETURN NEXT ROW(2, NULL, NULL, k.ord, k.partition_id, k.group_id, v_lease, v_ended_by, NULL, NULL, NULL, NULL)::belfry.ack_row;
        END IF;
    END LOOP;

    IF v_outcomes IS NOT NULL THEN
        RETURN QUERY
        SELECT 3::smallint, NULL::integer, NULL::smallint, NULL::integer, NULL::bigint, g.id, NULL::uuid, NULL::integer, NULL::timestamptz,
               NULL::float8, NULL::boolean, true
          FROM belfry.count_outcomes(v_outcomes) AS g(id);
    END IF;
    IF v_tried IS NOT NULL THEN
        PERFORM belfry.record_attempts(v_tried);
    END IF;
    IF v_changes IS NULL THEN
        RETURN;
    END IF;
    -- One statement for all cursors costs less than half as much as one statement for each cursor.
    RETURN QUERY
    UPDATE belfry.cursor c
       SET committed = d.committed, skip = d.skip, failures = d.failures, attempts = d.attempts, retry_at = d.retry_at,
           consumed = c.consumed + d.committed - c.committed,
           consumed_at = CASE WHEN d.committed > c.committed OR d.settled > 0 THEN d.judged_at ELSE c.consumed_at END,
           redrives = CASE WHEN d.settled > 0 THEN nullif(c.redrives - d.settled, 0) ELSE c.redrives END,
           lease_id = CASE WHEN NOT d.released THEN c.lease_id END,
           lease_until = CASE WHEN NOT d.released THEN c.lease_until END,
           lease_end = CASE WHEN NOT d.released THEN c.lease_end + d.settled_of_lease END,
           ready_at = CASE
               WHEN NOT d.released THEN c.ready_at
               WHEN p_sql_consumer AND d.committed >= p.last_seq THEN d.judged_at
               ELSE coalesce(
                   belfry.ready_at(d.partition_id, d.committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END, p.last_push_at,
                                   p.visible_until, q.delayed_processing, q.window_buffer, d.retry_at,
                                   c.redrives - coalesce(d.settled, 0), d.group_id),
                   CASE WHEN p_sql_consumer THEN d.judged_at END) END
      FROM unnest(v_changes) AS d
     CROSS JOIN LATERAL (
            SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p
             WHERE p.id >= d.partition_id AND p.id <= d.partition_id
             ORDER BY p.id DESC LIMIT 1) AS p
     CROSS JOIN LATERAL (
            SELECT q.delayed_processing, q.window_buffer FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
     WHERE c.ctid = d.place
    RETURNING 2::smallint, NULL::integer, NULL::smallint, d.cursor_index, d.partition_id, d.group_id, d.lease_before, d.ended_by,
              CASE WHEN d.released THEN c.ready_at END,
              CASE WHEN d.released THEN extract(epoch FROM c.ready_at - statement_timestamp())::float8 END,
              d.released AND CASE WHEN c.redrives > 0 OR d.settled > 0 THEN true
                                  WHEN c.ready_at IS NULL THEN NOT p_alone OR NOT belfry.hold_drained(d.partition_id, d.committed) ELSE false END,
              d.released AND d.limits_id IS NOT NULL AND belfry.counts_leases(d.limits_id, d.group_id);
END $$;

-- From sql/functions/ack/park.sql.

-- Makes a message a dead letter of a group, unless it is one already or was deleted. p_error is UTF-8.
CREATE FUNCTION belfry.park(p_partition bigint, p_group bigint, p_seq bigint, p_failures integer, p_error bytea) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
    SELECT p_partition, p_seq, p_group, p_failures, coalesce(nullif(convert_from(p_error, 'UTF8'), ''), 'Retries exhausted')
      FROM belfry.message m WHERE m.partition_id = p_partition AND m.seq = p_seq
    ON CONFLICT (partition_id, group_id, seq) DO NOTHING
$$;

-- From sql/functions/ack/record_attempts.sql.

-- Stores failed deliveries of messages, and deletes all but the newest 20 of each message and group. It sets
-- nth. It leaves out a message that is deleted, and a lease that is stored already. The caller has locked
-- the cursors of the messages.
CREATE FUNCTION belfry.record_attempts(p_attempts belfry.attempt[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH made AS (
        INSERT INTO belfry.attempt (partition_id, seq, group_id, nth, delivered_at, failed_at, result, lease_id, error, consumer, instance)
        SELECT a.partition_id, a.seq, a.group_id,
               coalesce((SELECT t.nth FROM belfry.attempt t
                          WHERE t.partition_id = a.partition_id AND t.seq = a.seq AND t.group_id = a.group_id ORDER BY t.nth DESC LIMIT 1), 0)
                   + row_number() OVER (PARTITION BY a.partition_id, a.seq, a.group_id ORDER BY a.ord),
               a.delivered_at, a.failed_at, a.result, a.lease_id, left(a.error, 1000), a.consumer, a.instance
          FROM unnest(p_attempts) WITH ORDINALITY
               AS a(partition_id, seq, group_id, nth, delivered_at, failed_at, result, lease_id, error, consumer, instance, ord)
         WHERE EXISTS (SELECT FROM belfry.message m WHERE m.partition_id = a.partition_id AND m.seq = a.seq)
           AND (a.result = 5 AND a.lease_id = (
                SELECT t.lease_id FROM belfry.attempt t
                 WHERE t.partition_id = a.partition_id AND t.seq = a.seq AND t.group_id = a.group_id ORDER BY t.nth DESC LIMIT 1)) IS NOT TRUE
        ON CONFLICT DO NOTHING
        RETURNING partition_id, seq, group_id, nth
    )
    -- The key is exact, so the statement reads no dead rows.
    DELETE FROM belfry.attempt t
     USING made m
     WHERE t.partition_id = m.partition_id AND t.seq = m.seq AND t.group_id = m.group_id AND t.nth = m.nth - 20;
END $$;

-- From sql/functions/attach/attach.sql.

-- Turns every change of a table into a message of a queue. An earlier attachment of the table to
-- that queue is replaced. The caller must own the table, or be a member of the owner. The owner
-- must have the rights of a producer. headers is an object of texts, or an expression over old and new
-- that returns one.
CREATE FUNCTION belfry.attach(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false, headers text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE belfry.attach_sql(target, queue, events, key, condition, payload, columns, strict, headers);
END $$;

-- From sql/functions/attach/attach_sql.sql.

-- Returns the statements that attach a table. belfry.attach has the same parameters and runs the
-- statements. attach_sql checks as much as possible in advance, and changes nothing.
CREATE FUNCTION belfry.attach_sql(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false, headers text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    v_events text[];
    v_schema name;
    v_owner name;
    v_base text;
    v_function text;
    v_event text;
    v_sql text := '';
    v_gone regprocedure[];
    old record;
    v_headers text := headers; -- an expression
    v_partition regclass;
    v_rows boolean;
BEGIN
    PERFORM belfry.check_attachable(target);
    key := coalesce(key, '{}');
    IF queue IS NULL OR queue IN ('', '.', '..') OR octet_length(queue) > 255 THEN
        RAISE EXCEPTION 'the name of a queue has 1 to 255 bytes, and is not . or ..' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM convert_to(concat_ws(' ', queue, condition, headers, target, key, columns), 'UTF8');
    -- The order of the events is fixed, so equal arguments give equal text.
    SELECT array_agg(e.name ORDER BY e.ord) INTO v_events
      FROM unnest(ARRAY['insert', 'update', 'delete']) WITH ORDINALITY AS e(name, ord)
     WHERE e.name = ANY (SELECT lower(x COLLATE "C") FROM unnest(events) AS x);
    IF v_events IS NULL OR EXISTS (SELECT 1 FROM unnest(events) AS x WHERE lower(x COLLATE "C") IS NULL OR lower(x COLLATE "C") <> ALL (v_events)) THEN
        RAISE EXCEPTION 'the events % are not known', events USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give one or more of insert, update and delete. TRUNCATE makes no messages.';
    END IF;
    IF payload IS NULL OR payload NOT IN ('row', 'changes') THEN
        RAISE EXCEPTION 'the payload % is not known', quote_nullable(payload) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''row'' or ''changes''. The argument columns selects the columns in the payload.';
    END IF;
    IF cardinality(columns) = 0 THEN
        columns := NULL;
    END IF;
    FOR v_event IN
        SELECT w.name FROM unnest(key || columns) AS w(name)
         WHERE NOT EXISTS (
                SELECT 1 FROM pg_attribute a
                 WHERE a.attrelid = target AND a.attname = w.name AND a.attnum > 0 AND NOT a.attisdropped)
    LOOP
        RAISE EXCEPTION '% has no column %', target, quote_nullable(v_event) USING ERRCODE = 'undefined_column',
            HINT = 'Its columns are ' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
                WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped) || '. Write the name without quotes.';
    END LOOP;
    SELECT n.nspname, pg_get_userbyid(c.relowner) INTO v_schema, v_owner
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = target;
    IF belfry.pushes_are_checked() THEN
        PERFORM belfry.check_push_grants(v_owner, ARRAY[queue]);
    END IF;
    IF condition IS NOT NULL THEN
        PERFORM belfry.check_expression(target, v_schema, condition, false);
    END IF;
    IF ltrim(headers) LIKE '{%' THEN
        BEGIN
            v_headers := format('%L', belfry.check_headers(headers::json));
        EXCEPTION WHEN invalid_text_representation THEN
            RAISE EXCEPTION 'the headers % are not JSON', quote_literal(headers) USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give an object of texts, such as ''{"tenant": "acme"}'', or an expression such as ''json_build_object(''''tenant'''', new.tenant)''.';
        END;
    ELSIF headers IS NOT NULL THEN
        PERFORM belfry.check_expression(target, v_schema, headers, true);
    END IF;

    v_base := 'belfry_' || left(md5(queue), 12) || '_';
    v_rows := v_events <> '{delete}' AND EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = target AND c.relkind = 'p');
    FOR old IN SELECT t.trigger_name, t.function_oid FROM belfry.attachment_triggers(target, queue) AS t LOOP
        v_sql := v_sql || format(E'DROP TRIGGER %I ON %s;\n', old.trigger_name, target);
        v_gone := array_append(v_gone, old.function_oid);
    END LOOP;
    -- The function stays while a trigger of another table uses it.
    FOR old IN
        SELECT DISTINCT f.id FROM unnest(v_gone) AS f(id)
         WHERE f.id IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM pg_trigger t WHERE t.tgfoid = f.id AND t.tgparentid = 0 AND t.tgrelid <> target)
    LOOP
        v_sql := v_sql || format(E'DROP FUNCTION %s;\n', old.id);
    END LOOP;
    -- Every role may execute the function of the row trigger: whoever creates a partition also creates
    -- the row trigger of the partition.
    FOREACH v_event IN ARRAY v_events || CASE WHEN v_rows THEN '{rows}'::text[] END LOOP
        -- The name contains a hash of the owner, so functions of an earlier owner have other names.
        v_function := format('%I.%I', v_schema, 'belfry_' || left(md5(target::oid || '/' || v_owner || '/' || queue), 12) || '_' || v_event);
        IF to_regprocedure(v_function || '()') IS NOT NULL
            AND array_position(v_gone, to_regprocedure(v_function || '()')) IS NULL AND v_event <> 'rows'
        THEN
            -- This owner owned the table before, or another role created a function of this name.
            v_sql := v_sql || format(E'DROP FUNCTION %s();\n', v_function);
        END IF;
        IF v_event = 'rows' THEN
            -- attachment_triggers reads the queue from the text after RETURN.
            v_sql := v_sql || format(E'CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS %L;\n'
                    'GRANT EXECUTE ON FUNCTION %1$s() TO PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %3$I;\n', v_function,
                    format(E'\nBEGIN\n    RETURN NEW;\n    INSERT INTO belfry.inbox (queue, partition, payload)\n    SELECT %L, NULL, NULL;\nEND ', queue),
                    v_owner);
            CONTINUE;
        END IF;
        v_sql := v_sql || belfry.attachment_function(target, v_function, v_event, queue, key, condition, payload, columns, strict, v_headers) || E';\n'
            || format(E'REVOKE ALL ON FUNCTION %s() FROM PUBLIC;\nALTER FUNCTION %1$s() OWNER TO %I;\n', v_function, v_owner)
            || format(E'CREATE TRIGGER %I AFTER %s ON %s\n    REFERENCING%s FOR EACH STATEMENT EXECUTE FUNCTION %s();\n',
                v_base || v_event, upper(v_event COLLATE "C"), target,
                CASE v_event WHEN 'insert' THEN ' NEW TABLE AS belfry_new' WHEN 'delete' THEN ' OLD TABLE AS belfry_old'
                             ELSE ' OLD TABLE AS belfry_old NEW TABLE AS belfry_new' END, v_function);
    END LOOP;
    IF v_rows THEN
        -- This trigger never runs. It makes Postgres read inserted rows as they were stored. Without
        -- this trigger, generated columns are NULL if a partition has another column order, and MERGE
        -- gives the last inserted row in place of each updated row.
        SELECT r.relid INTO v_partition FROM pg_partition_tree(target) AS r WHERE NOT has_table_privilege(r.relid, 'TRIGGER') ORDER BY 1 LIMIT 1;
        IF v_partition IS NOT NULL THEN
            RAISE EXCEPTION '% may not make a trigger on %, a partition of %', current_user, v_partition, target
                USING ERRCODE = 'insufficient_privilege', HINT = format('GRANT TRIGGER ON %s TO %I;', v_partition, current_user);
        END IF;
        v_sql := v_sql || format(E'CREATE TRIGGER %I BEFORE INSERT ON %s\n    FOR EACH ROW WHEN (false) EXECUTE FUNCTION %s();\n',
            v_base || 'rows_' || target::oid, target, v_function);
    END IF;
    RETURN v_sql
        || format(E'UPDATE belfry.attachment SET events = ''{}'' WHERE target = %L::regclass AND queue = %L;\n', target, queue)
        || format(E'INSERT INTO belfry.attachment (target, queue, events, key, condition, payload, columns, strict, headers)\n'
                  'VALUES (%L::regclass, %L, %L, %L, %L, %L, %L, %L, %L);' || E'\n', target, queue, v_events, key, condition, payload, columns, strict,
                  headers);
END $$;

-- From sql/functions/attach/attachment_failed.sql.

-- A trigger function calls it if the messages of a statement could not be written. Raises a
-- warning, and stores a row for the operator, at most one a second for each attachment. It raises no
-- error, and waits at most 100 ms for a session that locks the table.
CREATE FUNCTION belfry.attachment_failed(p_target regclass, p_queue text, p_event text, p_code text, p_message text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
    IF NOT belfry.is_utf8(p_message) THEN
        p_message := 'an error whose text is not valid UTF-8';
    END IF;
    RAISE WARNING 'the messages of an % of % for queue "%" were not written: %', p_event,
        CASE WHEN belfry.is_utf8(p_target::text) THEN p_target::text ELSE p_target::oid::text END, p_queue, p_message
        USING HINT = 'The statement itself continues. See belfry.attachments.';
    INSERT INTO belfry.attachment_failure (target, queue, event, code, message)
    SELECT p_target, p_queue, p_event, p_code, p_message
     WHERE NOT EXISTS (
            SELECT 1 FROM belfry.attachment_failure f
             WHERE f.target = p_target AND f.queue = p_queue AND f.failed_at > clock_timestamp() - interval '1 second');
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'this failure could not be stored in belfry.attachment_failure: %', SQLERRM;
END $$;

-- From sql/functions/attach/attachment_function.sql.

-- Returns the text of the function that runs after each statement that causes p_event. The function runs
-- with the rights of the table's owner. So every name in the text has its schema. Only a condition
-- and headers are evaluated with the table's schema in the search path.
CREATE FUNCTION belfry.attachment_function(
    p_target regclass, p_name text, p_event text, p_queue text, p_key text[], p_condition text, p_payload text, p_columns text[],
    p_strict boolean, p_headers text
) RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_side text := CASE WHEN p_event = 'delete' THEN 'old' ELSE 'new' END;
    v_columns text;
    -- A name that no column of the table has.
    v_one text := 'belfry_row';
    -- The arguments of this format: old or new, and json or jsonb. new.* is the row, also if a column
    -- has the name new.
    v_row text := 'pg_catalog.to_%2$s(%1$s.*)';
    v_lane text := quote_literal('Default');
    v_from text;
    v_payload text;
    v_where text[];
    v_pairs boolean;
    v_insert text;
    v_body text;
    v_tag text := 'belfry';
    -- If the table has virtual columns, the function builds its statement at run time from the text
    -- between these quotes. The text cannot contain the quotes.
    v_computed boolean := EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = p_target AND a.attgenerated = 'v');
    v_quote text := 'belfry_text';
    v_old text := 'belfry_old';
    v_new text := 'belfry_new';
    v_source text := 'belfry_attachment.source';
    v_paired text := 'belfry_attachment.paired';
BEGIN
    IF v_computed THEN
        WHILE position(v_quote IN (SELECT concat_ws(' ', p_queue, p_condition, p_headers, string_agg(a.attname, ' ')) FROM pg_attribute a WHERE a.attrelid = p_target)) > 0 LOOP
            v_quote := v_quote || '_';
        END LOOP;
        v_quote := '$' || v_quote || '$';
        v_old := v_quote || ' || belfry.transition_rows(TG_RELID, ''belfry_old'') || ' || v_quote;
        v_new := v_quote || ' || belfry.transition_rows(TG_RELID, ''belfry_new'') || ' || v_quote;
        v_source := '$1';
        v_paired := '$2';
    END IF;
    WHILE EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = p_target AND a.attname = v_one) LOOP
        v_one := v_one || '_';
    END LOOP;
    IF p_columns IS NOT NULL THEN
        SELECT string_agg(format('%%1$s.%s', replace(quote_ident(c), '%', '%%')), ', ' ORDER BY ord)
          INTO v_columns FROM unnest(p_columns) WITH ORDINALITY AS k(c, ord);
        v_row := '(SELECT pg_catalog.to_%2$s(k.*) FROM (SELECT ' || v_columns || ') AS k)';
    END IF;
    IF cardinality(p_key) > 0 THEN
        SELECT 'belfry.partition_of(' || string_agg(
                   format(CASE WHEN y.typtype = 'e' OR y.oid = ANY ('{int2,int4,int8,numeric,text,varchar,bpchar,name,uuid,bool}'::regtype[])
                               THEN '%s.%I::text' ELSE 'belfry.key_text(%s.%I)' END, v_side, c), ', ' ORDER BY ord) || ')'
          INTO v_lane
          FROM unnest(p_key) WITH ORDINALITY AS k(c, ord)
          JOIN pg_attribute a ON a.attrelid = p_target AND a.attname = k.c
          JOIN pg_type y ON y.oid = a.atttypid;
    END IF;
    v_payload := format('''op'', %L, ''table'', %s, ''row'', %s', p_event, v_source, format(v_row, v_side, 'json'));
    v_pairs := p_event = 'update' AND (p_payload = 'changes' OR p_condition IS NOT NULL OR p_headers IS NOT NULL);
    v_from := CASE
        -- Pairs old and new rows by their position: both transition tables have the order of the update.
        -- An update may move a row to another partition, and a trigger may drop the row there. Then the
        -- numbers of rows differ, and no rows are paired. A FULL JOIN, which OFFSET 0 keeps, never
        -- becomes a nested loop of n * n steps, even in a plan made for a small statement. The inner
        -- SELECT * removes dropped columns, which would shift the columns of (new_one).*.
        WHEN v_pairs THEN format($t$
      FROM (SELECT n.nth, n.one AS new_one, o.one AS old_one
              FROM (SELECT pg_catalog.row_number() OVER () AS nth, %1$s AS one FROM (SELECT * FROM %2$s AS r) AS %1$s) AS n
              FULL JOIN (SELECT CASE WHEN %4$s THEN pg_catalog.row_number() OVER () END AS nth, %1$s AS one
                           FROM (SELECT * FROM %3$s AS r) AS %1$s) AS o ON o.nth = n.nth
            OFFSET 0) AS pair
     CROSS JOIN LATERAL (SELECT (pair.new_one).*) AS new
     CROSS JOIN LATERAL (SELECT (pair.old_one).*) AS old$t$, v_one, v_new, v_old, v_paired)
        -- The text does not contain the name of the table, because the name may change.
        WHEN p_event = 'delete' THEN format(E'\n      FROM %1$s AS old\n      LEFT JOIN %1$s AS new ON false', v_old)
        ELSE format(E'\n      FROM %1$s AS new\n      LEFT JOIN %1$s AS old ON false', v_new) END;
    IF v_pairs THEN
        v_where := v_where || 'pair.nth IS NOT NULL'::text;
    END IF;
    IF p_payload = 'changes' AND p_event = 'update' THEN
        v_from := v_from || format($t$
     CROSS JOIN LATERAL (
            SELECT pg_catalog.json_object_agg(b.key, b.value) AS before
              FROM pg_catalog.jsonb_each(%s) AS b
              JOIN pg_catalog.jsonb_each(%s) AS a ON a.key = b.key
             WHERE a.value IS DISTINCT FROM b.value) AS changed$t$,
            format(v_row, 'old', 'jsonb'), format(v_row, 'new', 'jsonb'));
        v_payload := v_payload || format(', ''old'', CASE WHEN %s THEN changed.before END', v_paired);
        v_where := v_where || format('(changed.before IS NOT NULL OR NOT %s)', v_paired);
    END IF;
    IF p_condition IS NOT NULL THEN
        -- If the old row is unknown, the condition cannot exclude the new row.
        v_where := v_where || format(CASE WHEN v_pairs
            THEN E'COALESCE((%s\n           ), NOT %s)' ELSE E'(%s\n           )' END, p_condition, v_paired);
    END IF;
    v_insert := format($t$INSERT INTO belfry.inbox (queue, partition, payload%s)
    SELECT %L, %s, pg_catalog.json_build_object(%s)%s%s%s%s$t$, CASE WHEN p_headers IS NULL THEN '' ELSE ', headers' END, p_queue, v_lane, v_payload,
        CASE WHEN p_headers IS NULL THEN '' ELSE format(E',\n           belfry.check_headers((%s\n           )::pg_catalog.json)', p_headers) END, v_from,
        CASE WHEN v_where IS NULL THEN '' ELSE E'\n     WHERE ' || array_to_string(v_where, E'\n       AND ') END,
        CASE WHEN v_pairs THEN E'\n     ORDER BY pair.nth' ELSE '' END);
    IF v_computed THEN
        v_insert := 'EXECUTE ' || v_quote || v_insert || v_quote || ' USING belfry_attachment.source'
            || CASE WHEN v_pairs THEN ', belfry_attachment.paired' ELSE '' END;
    END IF;
    v_body := format($t$
#variable_conflict use_column
<<belfry_attachment>>
DECLARE
    source text := pg_catalog.quote_ident(TG_TABLE_SCHEMA::text) || '.' || pg_catalog.quote_ident(TG_TABLE_NAME::text);
%sBEGIN
%s    %s;
    RETURN NULL;
%sEND $t$,
        CASE WHEN v_pairs THEN E'    paired boolean;\n' ELSE '' END,
        CASE WHEN v_pairs THEN
            E'    paired := (SELECT pg_catalog.count(*) FROM belfry_old) = (SELECT pg_catalog.count(*) FROM belfry_new);\n' ELSE '' END,
        v_insert,
        CASE WHEN p_strict THEN '' ELSE format($t$EXCEPTION WHEN OTHERS OR assert_failure THEN
    BEGIN
        PERFORM belfry.attachment_failed(TG_RELID::regclass, %L, %L, SQLSTATE, SQLERRM);
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'the messages of a table for queue "%%" were not written: %%', %1$L, SQLERRM;
    END;
    RETURN NULL;
$t$, p_queue, p_event) END);
    WHILE position('$' || v_tag || '$' IN v_body) > 0 LOOP
        v_tag := v_tag || '_';
    END LOOP;
    RETURN format(E'CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER\n'
                  'SET search_path = pg_catalog, %spg_temp%s AS $%s$%s$%4$s$',
        p_name,
        CASE WHEN p_condition IS NULL AND p_headers IS NULL THEN '' ELSE
            (SELECT format('%I, ', n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p_target) END,
        CASE WHEN p_condition IS NULL AND p_headers IS NULL THEN '' ELSE ' SET standard_conforming_strings = on' END,
        v_tag, v_body);
END $$;

-- From sql/functions/attach/attachment_triggers.sql.

-- Returns the triggers of an attachment, and their functions. For a partitioned table the result
-- includes the row trigger.
--
-- The owner of a table can give any name to a trigger, and the caller of detach may have more rights
-- than the owner. So function_oid is NULL for a function of another owner, and detach does not drop it.
-- Functions of an earlier owner of the table stay, and that owner can drop them.
CREATE FUNCTION belfry.attachment_triggers(p_target regclass, p_queue text DEFAULT NULL)
RETURNS TABLE (trigger_name name, function_oid regprocedure, queue text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT t.tgname, CASE WHEN w.ours THEN f.oid::regprocedure END, coalesce(w.queue, p_queue, t.tgname::text)
      FROM pg_trigger t
      JOIN pg_class c ON c.oid = t.tgrelid
      JOIN pg_proc f ON f.oid = t.tgfoid
     -- The literal of the queue from attachment_function. Quotes are doubled; after E backslashes too.
     CROSS JOIN LATERAL (
            SELECT substring(f.prosrc FROM 'INSERT INTO belfry\.inbox \(queue, partition, payload\)\s+SELECT\s+(E?''(?:[^'']|'''')*''), ') AS literal
     ) AS l
     CROSS JOIN LATERAL (
            SELECT f.proowner = c.relowner AND (f.prosecdef OR f.proname LIKE '%\_rows') AND f.proname LIKE 'belfry\_%' AS ours,
                   CASE WHEN l.literal LIKE 'E%' THEN replace(replace(substr(l.literal, 3, length(l.literal) - 3), '''''', ''''), '\\', '\')
                        ELSE replace(substr(l.literal, 2, length(l.literal) - 2), '''''', '''') END AS queue
     ) AS w
     WHERE t.tgrelid = p_target AND NOT t.tgisinternal AND t.tgparentid = 0
       AND (CASE WHEN p_queue IS NULL THEN t.tgname ~ '^belfry_[0-9a-f]{12}_(insert|update|delete|rows_[0-9]+)$'
                 ELSE t.tgname LIKE 'belfry\_' || left(md5(p_queue), 12) || '\_%' END
            OR w.ours AND w.queue = coalesce(p_queue, w.queue))
     ORDER BY t.tgname
$$;

-- From sql/functions/attach/check_attachable.sql.

-- Raises an error if the caller may not attach the table. The error names the missing right.
CREATE FUNCTION belfry.check_attachable(p_target regclass) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    SELECT c.relkind, c.relowner, c.relpersistence, n.oid AS schema_id, n.nspname, pg_get_userbyid(c.relowner) AS owner INTO r
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = p_target;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no table to attach' USING ERRCODE = 'undefined_table',
            HINT = 'Write ''schema.table''. Put a name in double quotes if SQL requires it.';
    ELSIF r.relkind NOT IN ('r', 'p') THEN
        RAISE EXCEPTION '% is not a table, so its changes cannot be seen', p_target USING ERRCODE = 'wrong_object_type',
            HINT = 'Attach the tables that the view or the foreign table reads.';
    ELSIF r.nspname IN ('belfry', 'pg_catalog', 'information_schema') OR r.relpersistence = 't' THEN
        RAISE EXCEPTION '% cannot be attached', p_target USING ERRCODE = 'wrong_object_type',
            HINT = 'Tables of Belfry, system tables and temporary tables cannot be attached.';
    ELSIF EXISTS (
        WITH RECURSIVE k(id) AS (
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = p_target
            UNION
            SELECT i.inhrelid FROM pg_inherits i JOIN k ON k.id = i.inhparent
        )
        SELECT 1 FROM k JOIN pg_class c ON c.oid = k.id WHERE c.relkind = 'f')
    THEN
        RAISE EXCEPTION '% has a foreign table as a partition or child: with the triggers, Postgres would refuse statements that reach the foreign table', p_target
            USING ERRCODE = 'wrong_object_type', HINT = 'Attach the other partitions or children, and name them in the statements that change their rows.';
    ELSIF NOT pg_has_role(current_user, r.relowner, 'USAGE')
        OR NOT pg_has_role(current_user, r.relowner, CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'USAGE' END)
    THEN
        RAISE EXCEPTION '% may not attach %: it belongs to %', current_user, p_target, r.owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', r.owner, current_user);
    ELSIF NOT has_schema_privilege(r.relowner, 'belfry', 'USAGE') OR NOT has_any_column_privilege(r.relowner, 'belfry.inbox', 'INSERT') THEN
        RAISE EXCEPTION '%, who owns %, may not write to belfry.inbox', r.owner, p_target USING ERRCODE = 'insufficient_privilege',
            DETAIL = 'The triggers always run with the rights of the table''s owner.',
            HINT = format('GRANT belfry_producer TO %I;', r.owner);
    ELSIF NOT has_schema_privilege(current_user, r.schema_id, 'CREATE') OR NOT has_schema_privilege(r.relowner, r.schema_id, 'CREATE') THEN
        RAISE EXCEPTION 'the functions of the triggers cannot be created in schema %', r.nspname USING ERRCODE = 'insufficient_privilege',
            HINT = format('GRANT CREATE ON SCHEMA %I TO %I;', r.nspname,
                CASE WHEN has_schema_privilege(current_user, r.schema_id, 'CREATE') THEN r.owner ELSE current_user END);
    END IF;
END $$;

-- From sql/functions/attach/check_expression.sql.

-- Raises an error if p_text cannot be an expression over the rows old and new of a table: a boolean, or
-- json if p_headers is true. The expression must be valid in parentheses and in a CASE. So it cannot end
-- the expression and begin another statement. A cursor also refuses several statements. There is no FETCH:
-- EXPLAIN would run immutable functions of the expression with the caller's rights.
CREATE FUNCTION belfry.check_expression(p_target regclass, p_schema name, p_text text, p_headers boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    v_plan refcursor;
    v_place text;
BEGIN
    PERFORM set_config('search_path', format('pg_catalog, %I, pg_temp', p_schema), true);
    FOREACH v_place IN ARRAY CASE WHEN p_headers
        THEN ARRAY['(%2$s' || E'\n)::pg_catalog.json IS NULL', 'CASE WHEN true THEN %2$s' || E'\nEND::pg_catalog.json IS NULL']
        ELSE ARRAY['(%2$s' || E'\n)', 'CASE WHEN %2$s' || E'\nTHEN true END'] END
    LOOP
        OPEN v_plan FOR EXECUTE format(
            'EXPLAIN SELECT 1 FROM (SELECT * FROM %1$s) AS new, (SELECT * FROM %1$s) AS old WHERE ' || v_place, p_target, p_text);
        CLOSE v_plan;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE EXCEPTION 'the % % cannot be used: %', CASE WHEN p_headers THEN 'headers' ELSE 'condition' END, quote_literal(p_text), SQLERRM
        USING ERRCODE = SQLSTATE, HINT = CASE WHEN p_headers
            THEN 'The headers are an object of texts, or a json expression over old and new, such as: json_build_object(''tenant'', new.tenant). '
            ELSE 'A condition is a boolean expression over old and new, such as: new.total > 100 AND old.total IS DISTINCT FROM new.total. ' END
            || 'For an insert old is NULL, for a delete new is NULL. Write the schema of each function that is not in the schema of the table.';
END $$;

-- From sql/functions/attach/detach.sql.

-- Drops the triggers of a table, for one queue or for all, also triggers without a row in
-- belfry.attachment. Returns the queues that received messages of the table.
CREATE FUNCTION belfry.detach(target regclass, queue text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_owner name;
    v_queues text[] := '{}';
    v_functions regprocedure[];
    t record;
BEGIN
    SELECT pg_get_userbyid(c.relowner) INTO v_owner FROM pg_class c WHERE c.oid = target;
    IF v_owner IS NOT NULL AND NOT pg_has_role(current_user, v_owner, 'USAGE') THEN
        RAISE EXCEPTION '% may not detach %: it belongs to %', current_user, target, v_owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', v_owner, current_user);
    END IF;
    FOR t IN SELECT s.trigger_name, s.function_oid, s.queue FROM belfry.attachment_triggers(target, queue) AS s LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.trigger_name, target);
        v_functions := v_functions || t.function_oid;
        v_queues := v_queues || t.queue;
    END LOOP;
    FOR t IN
        SELECT DISTINCT f.id FROM unnest(v_functions) AS f(id)
         WHERE f.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_trigger g WHERE g.tgfoid = f.id) -- a trigger of another table uses it
    LOOP
        EXECUTE format('DROP FUNCTION %s', t.id);
    END LOOP;
    RETURN QUERY
        SELECT k.queue FROM belfry.attachment k WHERE k.target = target AND k.queue = coalesce(queue, k.queue)
        UNION
        SELECT s.queue FROM unnest(v_queues) AS s(queue)
        ORDER BY 1;
    UPDATE belfry.attachment k SET events = '{}' WHERE k.target = target AND k.queue = coalesce(queue, k.queue);
END $$;

-- From sql/functions/attach/key_text.sql.

-- Returns a value as text, independent of the settings of the session.
CREATE FUNCTION belfry.key_text(p_value anyelement) RETURNS text LANGUAGE plpgsql STABLE
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1
SET lc_monetary = 'C' AS $$
BEGIN
    RETURN p_value::text;
END $$;

-- From sql/functions/attach/partition_of.sql.

-- Returns the partition name for a key: the texts that are not NULL, joined by a slash. A hash replaces
-- a name above 255 bytes, and the names . and .., which clients remove from URL paths.
CREATE FUNCTION belfry.partition_of(VARIADIC p_key text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN k.name IS NULL OR k.name = '' THEN 'Default'
                WHEN pg_catalog.octet_length(k.name) > 255 OR k.name IN ('.', '..') THEN 'md5:' || pg_catalog.md5(k.name)
                ELSE k.name END
      FROM (SELECT pg_catalog.array_to_string(p_key, '/') AS name) AS k
$$;

-- From sql/functions/attach/transition_rows.sql.

-- Returns a SELECT in parentheses with the rows of a transition table of p_table. Virtual columns are
-- NULL in a transition table, so the SELECT computes them. If p_table has partitions or children, the
-- table of a row is unknown, so tableoid is NULL.
--
-- The SET clauses make the text of a constant independent of the session. COLLATE needs a right in the
-- schema of the collation, so only collations that differ from the type's collation are written.
CREATE FUNCTION belfry.transition_rows(p_table oid, p_transition name) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
    SELECT format('(SELECT %s FROM (SELECT *, %L::oid AS tableoid FROM %I) AS r)', string_agg(
               CASE WHEN a.attgenerated = 'v' THEN format('(%s)::%s%s AS %I', pg_get_expr(d.adbin, d.adrelid), format_type(a.atttypid, a.atttypmod),
                        (SELECT format(' COLLATE %I.%I', n.nspname, o.collname) FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace
                           JOIN pg_type y ON y.oid = a.atttypid AND y.typcollation <> o.oid WHERE o.oid = a.attcollation), a.attname)
                    ELSE format('r.%I', a.attname) END, ', ' ORDER BY a.attnum),
               CASE WHEN NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = p_table) THEN p_table END, p_transition)
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped
$$;

-- From sql/functions/claim/blocked.sql.

-- The value of cursor.retry_at that marks a blocked cursor: the first message has no retry left, and the group
-- has onExhausted = 'block'. ready_at follows retry_at, so nothing makes the cursor due before belfry.unblock.
-- The value is finite, and less than 292 years ahead: Postgres before 17 cannot subtract from infinity, and the
-- servers store differences in a time.Duration. The index cursor_blocked has the same value.
CREATE FUNCTION belfry.blocked() RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT timestamptz '2200-01-01 00:00:00+00'
$$;

-- From sql/functions/claim/claim.sql.

-- Claims for one pop of a group: takes leases on up to p_partitions due partitions and returns up to p_batch
-- messages. The partition that has been due the longest comes first. The query store/claim is the only
-- caller besides belfry.pop.
--
--   p_partition   Claim only from this partition. NULL: from any partition.
--   p_lease       The id of the leases. NULL: consume the messages on delivery (autoAck).
--   p_floor       No cursor of the group has a ready_at before this instant. NULL: unknown.
--   p_next_floor  No cursor becomes ready between now and this instant. NULL: unknown.
--   p_look        Return due_floor and next_floor, even if the call locked a cursor.
--   p_bytes       The limit for the bytes of the messages in the answer; see delivery_bytes. The first
--                 message may exceed the limit. NULL: no limit.
--   p_alone       This is the only claim of the transaction; see hold_drained.
--
-- A delivery ends before the next message that the cursor skips. So the delivery is one range of the
-- log, and its cost does not grow with the number of skipped messages.
--
-- sql/schema/claim_row.sql describes the result. due_floor and next_floor are set only if p_partition is
-- NULL, and either p_look is true or the call locked no cursor.
--
-- If the cursor has a lease that ended without an ack, the claim stores the failed delivery; see
-- record_lost_lease.
--
-- A limited group delivers only what belfry.admit allows. A refused claim leaves the cursor due.
--
-- Locks the cursor of each partition it delivers from, with SKIP LOCKED. A commit with a lease does not
-- wait for the disk: a lost lease only makes the messages due earlier. Each statement has a new
-- snapshot, so a statement after the lock of a cursor sees the newest version of the partition. The
-- claim is a function because starting a statement of this size costs more than claiming one message.
CREATE FUNCTION belfry.claim(
    p_group bigint, p_partition bigint, p_partitions bigint, p_batch bigint, p_lease uuid,
    p_floor timestamptz DEFAULT NULL, p_next_floor timestamptz DEFAULT NULL, p_look boolean DEFAULT false,
    p_bytes bigint DEFAULT NULL, p_alone boolean DEFAULT false
) RETURNS SETOF belfry.claim_row LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_floor timestamptz := coalesce(p_floor, '-infinity');
    v_due timestamptz;
    v_lease timestamptz;
    v_room bigint := p_batch;
    v_bytes_left bigint := p_bytes;
    v_bytes bigint;
    v_taken bigint;
    v_upto bigint;
    v_limit bigint;
    v_more boolean;
    v_moved boolean; -- a statement wrote the cursor after its lock
    v_gap int8range; -- a range of seqs that the cursor does not skip
    v_first bigint;
    v_end bigint;
    v_redrives_ready timestamptz;
    v_any_locked boolean := false;
    v_attempt integer;
    v_admitted record;
    v_refused boolean := false;
    v_limited_until timestamptz; -- The limits of the group end the claim, and refuse the next one before this instant.
    due CURSOR FOR
        SELECT a.ctid, a.partition_id, a.committed, a.skip, a.redrives, a.retry_at, a.failures, a.attempts, a.start_at, a.lease_id
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at, c.lease_id
                  FROM belfry.cursor c
                 WHERE p_partition IS NULL AND c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
                 ORDER BY c.ready_at LIMIT p_partitions
                   FOR NO KEY UPDATE SKIP LOCKED) AS a
        UNION ALL
        SELECT o.ctid, o.partition_id, o.committed, o.skip, o.redrives, o.retry_at, o.failures, o.attempts, o.start_at, o.lease_id
          FROM (SELECT c.ctid, c.partition_id, c.committed, c.skip, c.redrives, c.retry_at, c.failures, c.attempts, c.start_at, c.lease_id
                  FROM (SELECT n.ctid AS at, n.ready_at
                          FROM belfry.cursor n
                         WHERE n.partition_id = p_partition AND n.group_id >= p_group AND n.group_id <= p_group
                         ORDER BY n.group_id DESC LIMIT 1) AS newest
                  JOIN belfry.cursor c ON c.ctid = newest.at
                 WHERE newest.ready_at <= v_now AND coalesce(c.ready_at <= v_now, false) -- coalesce: avoids the index cursor_ready
                   FOR NO KEY UPDATE OF c SKIP LOCKED) AS o;
    k record;
    sizes CURSOR (upto bigint) FOR
        SELECT m.seq, belfry.delivery_bytes(m.payload, m.transaction_id, m.producer_sub, m.headers, true) AS bytes
          FROM belfry.message m
         WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq <= upto
         ORDER BY m.seq;
    f record;
    next record;
    skipped record;
    r belfry.claim_row;
BEGIN
    -- An earlier wake may have turned synchronous_commit off. If an autoAck commit is lost, a second delivery follows.
    PERFORM set_config('synchronous_commit', CASE WHEN p_lease IS NULL THEN 'on' ELSE 'off' END, true);
    -- One FETCH for each cursor, so the call locks no more cursors than it needs.
    OPEN due;
    LOOP
        EXIT WHEN v_room = 0; -- other pops can claim the other partitions
        FETCH due INTO k;
        EXIT WHEN NOT FOUND;
        SELECT p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
               q.paused OR g.paused AS all_paused, g.limits_id, p.paused, make_interval(secs => coalesce(nullif(q.lease_time, 0), 60)) AS lease_time,
               q.delayed_processing = 0 AND coalesce(p.visible_until <= v_now, true) AS all_visible,
               q.expire_after_seconds, q.dead_letter_expired, q.max_deliveries,
               CASE WHEN NOT p.paused THEN
                   belfry.ready_at(k.partition_id, k.committed, p.last_seq, p.last_push_at, p.visible_until,
                                   q.delayed_processing, q.window_buffer, k.retry_at, NULL) END AS ready_at
          INTO f
          FROM (SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until, p.paused
                  FROM belfry.partition p
                 WHERE p.id >= k.partition_id AND p.id <= k.partition_id
                 ORDER BY p.id DESC LIMIT 1) AS p
          JOIN belfry.queue q ON q.id = p.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' -- coalesce: see append
          JOIN belfry.consumer_group g ON g.id = p_group;
        CONTINUE WHEN NOT FOUND; -- the partition or the group is being deleted
        IF f.all_paused THEN
            CLOSE due;
            r := NULL;
            r.item := 1;
            r.partition_id := k.partition_id;
            r.outcome := 5;
            RETURN NEXT r;
            r := NULL;
            r.item := 3;
            r.database_now := v_now;
            r.group_exists := true;
            r.was_due := false;
            RETURN NEXT r;
            RETURN;
        END IF;
        v_any_locked := true;
        IF k.lease_id IS NOT NULL THEN -- a due cursor has only a lease that has ended
            PERFORM belfry.record_lost_lease(k.partition_id, p_group, k.ctid, f.limits_id);
        END IF;
        v_moved := false;
        v_redrives_ready := NULL;
        IF k.redrives > 0 AND NOT f.paused THEN
            -- Redriven messages are delivered first, without messages of the log.
            v_taken := 0;
            v_bytes := 0;
            v_limit := v_room;
            IF f.limits_id IS NOT NULL THEN
                v_admitted := belfry.admit(f.limits_id, p_group, k.partition_id, p_lease, least(v_room, k.redrives), false, v_now);
                v_limit := v_admitted.room;
                v_limited_until := v_admitted.next_at;
                v_refused := v_limit = 0;
                EXIT WHEN v_refused;
            END IF;
            FOR r IN
                SELECT d.*
                  FROM belfry.redeliver(p_group, k.partition_id, v_limit, p_lease, f.lease_time, v_now, v_bytes_left, v_room < p_batch) AS d
            LOOP
                RETURN NEXT r;
                v_taken := v_taken + 1;
                v_bytes := v_bytes + coalesce(belfry.delivery_bytes(r.payload, r.transaction_id, r.producer_sub, r.headers, true), 0);
            END LOOP;
            IF v_taken > 0 THEN
                v_room := v_room - (v_taken - 1); -- the first row describes the partition, not a message
                v_bytes_left := v_bytes_left - v_bytes;
                IF f.limits_id IS NOT NULL AND v_taken > 1 THEN
                    v_limited_until := belfry.spend(f.limits_id, p_group, v_taken - 1);
                    EXIT WHEN v_limited_until IS NOT NULL;
                END IF;
                CONTINUE;
            END IF;
            v_moved := true;
            SELECT CASE WHEN c.redrives > 0 THEN belfry.redrives_ready_at(c.partition_id, c.group_id) END INTO v_redrives_ready
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id = p_group;
            EXIT WHEN v_redrives_ready <= v_now; -- the redriven messages exceed v_bytes_left
        END IF;
        IF k.start_at IS NOT NULL THEN
            f.ready_at := NULL;
        END IF;
        r := NULL;
        r.item := 1;
        r.partition_id := k.partition_id;
        v_limit := v_room;
        v_more := false;
        IF (f.expire_after_seconds > 0 OR f.max_deliveries > 0) AND f.ready_at <= v_now THEN
            SELECT s.moved, s.committed, s.skip, s.expired, s.given_up, s.skipped, s.blocked, s.more, s.alone INTO skipped
              FROM belfry.skip_undeliverable(k.partition_id, p_group, v_now, f.expire_after_seconds, f.dead_letter_expired,
                                    f.max_deliveries) AS s;
            v_moved := true;
            IF skipped.moved THEN
                r.expired := skipped.expired;
                r.given_up := skipped.given_up;
                r.skipped := skipped.skipped;
                k.committed := skipped.committed;
                k.skip := skipped.skip;
                k.failures := 0;
                k.attempts := 0;
                f.ready_at := belfry.ready_at(k.partition_id, skipped.committed, f.last_seq, f.last_push_at, f.visible_until,
                                              f.delayed_processing, f.window_buffer, NULL, NULL);
                v_more := skipped.more;
            ELSIF skipped.blocked THEN
                f.ready_at := belfry.blocked();
            END IF;
            IF skipped.alone AND p_lease IS NOT NULL THEN
                v_limit := 1;
            END IF;
        END IF;
        IF v_moved THEN
            SELECT c.ctid INTO k.ctid
              FROM belfry.cursor c
             WHERE c.partition_id = k.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1;
        END IF;
        IF f.ready_at IS NULL OR f.ready_at > v_now OR v_more THEN
            UPDATE belfry.cursor c
               SET ready_at = least(f.ready_at, v_redrives_ready), lease_id = NULL, lease_until = NULL, lease_end = NULL
             WHERE c.ctid = k.ctid;
            r.outcome := 3;
            r.ready_at := least(f.ready_at, v_redrives_ready);
            r.needs_wake := r.ready_at IS NULL OR v_redrives_ready IS NOT NULL;
            RETURN NEXT r;
            CONTINUE;
        END IF;

        v_first := k.committed + 1;
        v_end := 9223372036854775807;
        IF k.skip IS NOT NULL THEN
            FOR v_gap IN SELECT unnest(int8multirange(int8range(v_first, v_end)) - k.skip) LOOP
                v_first := lower(v_gap);
                v_end := upper(v_gap);
                EXIT WHEN EXISTS (
                    SELECT FROM belfry.message m WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end);
            END LOOP;
        END IF;
        IF NOT f.all_visible THEN
            SELECT coalesce(min(v.seq), v_end) INTO v_end
              FROM (SELECT m.seq, m.created_at, m.visible_at
                      FROM belfry.message m
                     WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end
                     ORDER BY m.seq LIMIT v_limit) AS v
             WHERE v.visible_at > v_now OR v.created_at > v_now - make_interval(secs => f.delayed_processing);
        END IF;
        SELECT count(*), max(s.seq), sum(s.bytes) INTO v_taken, v_upto, v_bytes
          FROM (SELECT m.seq, belfry.delivery_bytes(m.payload, m.transaction_id, m.producer_sub, m.headers, false) AS bytes
                  FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end
                 ORDER BY m.seq
                 LIMIT least(f.last_seq - k.committed, v_limit)) AS s;
        IF v_taken = 0 THEN
            r.outcome := 4;
            RETURN NEXT r;
            CONTINUE;
        END IF;
        IF v_bytes > v_bytes_left AND p_batch > 1 THEN
            -- FETCH and not FOR: FOR would read the sizes of more messages than the answer has.
            v_taken := 0;
            v_bytes := 0;
            OPEN sizes (v_upto);
            LOOP
                FETCH sizes INTO next;
                EXIT WHEN NOT FOUND OR v_bytes + next.bytes > v_bytes_left AND (v_taken > 0 OR v_room < p_batch);
                v_taken := v_taken + 1;
                v_bytes := v_bytes + next.bytes;
                v_upto := next.seq;
            END LOOP;
            CLOSE sizes;
            IF v_taken = 0 THEN -- the cursor stays due
                IF v_moved THEN
                    r.outcome := 3;
                    RETURN NEXT r;
                END IF;
                EXIT;
            END IF;
        END IF;
        IF f.limits_id IS NOT NULL THEN
            v_admitted := belfry.admit(f.limits_id, p_group, k.partition_id, p_lease, v_taken, true, v_now);
            v_limited_until := v_admitted.next_at;
            v_refused := v_admitted.room = 0;
            IF v_refused THEN -- the cursor stays due
                IF r.expired IS NOT NULL OR r.given_up IS NOT NULL OR r.skipped IS NOT NULL THEN
                    r.outcome := 3;
                    RETURN NEXT r;
                END IF;
                EXIT;
            END IF;
            IF v_admitted.room < v_taken THEN
                v_taken := v_admitted.room;
                SELECT m.seq INTO v_upto
                  FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq < v_end
                 ORDER BY m.seq OFFSET v_taken - 1 LIMIT 1;
            END IF;
        END IF;
        v_bytes_left := v_bytes_left - v_bytes;
        v_room := v_room - v_taken;

        IF p_lease IS NOT NULL THEN
            UPDATE belfry.cursor c
               SET lease_id = p_lease, lease_until = v_now + f.lease_time, lease_end = v_upto,
                   ready_at = v_now + f.lease_time, attempts = c.attempts + 1
             WHERE c.ctid = k.ctid
            RETURNING c.ready_at, c.attempts INTO r.ready_at, v_attempt;
        ELSE
            UPDATE belfry.cursor c
               SET lease_id = NULL, lease_until = NULL, lease_end = NULL, attempts = 0, failures = 0,
                   committed = v_upto,
                   ready_at = least(v_redrives_ready, belfry.ready_at(k.partition_id, v_upto, f.last_seq, f.last_push_at, f.visible_until,
                                                            f.delayed_processing, f.window_buffer, NULL, NULL)),
                   skip = belfry.skip_beyond(c.skip, v_upto),
                   consumed = c.consumed + v_taken, consumed_at = v_now
             WHERE c.ctid = k.ctid
            RETURNING c.ready_at, c.attempts INTO r.ready_at, v_attempt;
            r.needs_wake := CASE WHEN v_redrives_ready IS NOT NULL THEN true
                                 WHEN r.ready_at IS NULL THEN NOT p_alone OR NOT belfry.hold_drained(k.partition_id, v_upto) END;
        END IF;
        IF NOT FOUND THEN -- without this error, the messages would be delivered without a lease
            RAISE EXCEPTION 'the update did not find the locked cursor of group % in partition %', p_group, k.partition_id;
        END IF;
        r.outcome := 1;
        IF p_lease IS NULL AND (k.failures > 0 OR k.attempts > 0) THEN
            r.undo := json_build_object('failures', k.failures, 'attempts', k.attempts);
        END IF;
        RETURN NEXT r;
        RETURN QUERY
        SELECT 2::smallint, k.partition_id, NULL::smallint, NULL::timestamptz, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, NULL::json,
               m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.headers, m.encrypted, v_attempt,
               NULL::boolean, NULL::boolean, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
          FROM belfry.message m
         WHERE m.partition_id = k.partition_id AND m.seq >= v_first AND m.seq <= v_upto
         ORDER BY m.seq;
        EXIT WHEN v_limited_until IS NOT NULL;
    END LOOP;
    CLOSE due;
    IF v_limited_until IS NOT NULL THEN
        IF v_refused AND k.lease_id IS NOT NULL THEN -- its failed delivery is stored above
            UPDATE belfry.cursor c SET lease_id = NULL, lease_until = NULL, lease_end = NULL WHERE c.ctid = k.ctid;
        END IF;
        r := NULL;
        r.item := 1;
        r.partition_id := k.partition_id;
        r.outcome := 6;
        r.ready_at := v_limited_until;
        RETURN NEXT r;
    END IF;
    IF p_partition IS NULL AND (p_look OR NOT v_any_locked) THEN
        SELECT c.ready_at INTO v_due
          FROM belfry.cursor c
         WHERE c.group_id = p_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
         ORDER BY c.ready_at LIMIT 1;
    END IF;
    r := NULL;
    r.item := 3;
    r.database_now := v_now;
    r.group_exists := v_any_locked;
    r.was_due := v_any_locked AND v_limited_until IS NULL;
    IF NOT v_any_locked THEN
        SELECT q.deleted_at IS NULL, v_now + make_interval(secs => coalesce(nullif(q.lease_time, 0), 60))
          INTO r.group_exists, v_lease
          FROM belfry.queue q
         WHERE q.id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = p_group);
        r.group_exists := coalesce(r.group_exists, false);
        IF p_partition IS NOT NULL THEN
            SELECT c.ready_at <= v_now, c.ready_at INTO r.was_due, r.next_ready_at
              FROM belfry.cursor c
             WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1;
            r.group_exists := r.group_exists AND FOUND; -- no cursor: the partition was removed
            r.was_due := coalesce(r.was_due, false);
        ELSIF v_due IS NOT NULL THEN
            r.was_due := true;
        ELSE
            SELECT c.ready_at INTO r.next_ready_at
              FROM belfry.cursor c
             WHERE c.group_id = p_group AND c.ready_at > v_now AND c.ready_at >= coalesce(p_next_floor, '-infinity')
             ORDER BY c.ready_at LIMIT 1;
        END IF;
        IF r.was_due THEN
            r.next_ready_at := NULL;
        END IF;
    END IF;
    IF p_partition IS NULL AND (p_look OR NOT v_any_locked) THEN
        r.due_floor := coalesce(v_due, v_now);
        IF NOT v_any_locked AND v_due IS NULL THEN
            -- At most the end of a lease that begins now, because other servers do not announce their leases.
            r.next_floor := least(r.next_ready_at, v_lease);
        END IF;
    END IF;
    RETURN NEXT r;
END $$;

-- From sql/functions/claim/passed.sql.

-- Returns p_committed, or the last of the skipped seqs that directly follow p_committed.
CREATE FUNCTION belfry.passed(p_committed bigint, p_skip int8multirange) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(int8multirange(int8range(p_committed + 1, NULL)) - p_skip) - 1
$$;

-- From sql/functions/claim/record_lost_lease.sql.

-- Stores that the lease of the locked cursor at p_place ended without an ack. The first unfinished message of the lease
-- has failed, because only its attempts count. Each redriven message of the lease has failed too, at most
-- 100 of them. For the breaker of a group with limits (p_limits), the lease is one failure.
CREATE FUNCTION belfry.record_lost_lease(p_partition bigint, p_group bigint, p_place tid, p_limits bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_attempts belfry.attempt[];
BEGIN
    SELECT k.committed, k.skip, k.lease_id, k.lease_until, k.lease_end INTO c
      FROM belfry.cursor k
     WHERE k.ctid = p_place;
    SELECT array_agg(ROW(p_partition, h.seq, p_group, 0, belfry.lease_begin(c.lease_id), c.lease_until, 5, c.lease_id,
                         'the lease ended without an ack', NULL, NULL)::belfry.attempt)
      INTO v_attempts
      FROM ((SELECT m.seq FROM belfry.message m
              WHERE c.lease_end >= 0 AND m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= c.lease_end
                AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
              ORDER BY m.seq LIMIT 1)
            UNION ALL
            (SELECT d.seq FROM belfry.redrive d
              WHERE c.lease_end < 0 AND d.partition_id = p_partition AND d.group_id = p_group AND d.lease_id = c.lease_id
              ORDER BY d.seq LIMIT 100)) AS h;
    IF v_attempts IS NOT NULL THEN
        PERFORM belfry.record_attempts(v_attempts);
        IF p_limits IS NOT NULL THEN
            PERFORM belfry.count_outcomes(ARRAY[ROW(p_group, p_limits, p_partition, c.lease_id, c.lease_until, 0, 1, 1, NULL,
                                                    'a lease ended without an ack')::belfry.outcome]);
        END IF;
    END IF;
END $$;

-- From sql/functions/claim/redeliver.sql.

-- Delivers up to p_batch redriven messages of one cursor, in the order of the log. belfry.claim calls it
-- with the cursor locked.
--
-- Returns the row of the partition and then a row for each message with its attempt. With p_lease NULL
-- the messages are settled on delivery (autoAck). The outcome is 3 if no message is left to deliver.
-- Returns no row if the first redriven message still waits for its retry delay, or is larger than
-- p_bytes. The first message may exceed p_bytes, unless p_delivered says that the pop delivers other
-- messages already.
--
-- maxDeliveries counts the deliveries since the redrive. A message that reached maxDeliveries becomes a
-- dead letter again, or settled with onExhausted = 'skip'. A message with one delivery left is delivered alone: if it kills its consumer, no
-- other message uses up a delivery.
CREATE FUNCTION belfry.redeliver(
    p_group bigint, p_partition bigint, p_batch bigint, p_lease uuid, p_lease_time interval, p_now timestamptz,
    p_bytes bigint, p_delivered boolean
) RETURNS SETOF belfry.claim_row LANGUAGE plpgsql AS $$
DECLARE
    v_max_deliveries bigint;
    v_last bigint;
    v_seqs bigint[];
    v_attempts integer[];
    v_given_up bigint[];
    v_skips boolean;
    v_settled bigint;
    v_bytes bigint := 0;
    v_left integer;
    v_waiting_seq bigint;
    one record;
    r belfry.claim_row;
BEGIN
    SELECT nullif(q.max_deliveries, 0) INTO v_max_deliveries
      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
     WHERE p.id = p_partition;
    FOR one IN
        SELECT d.seq, d.attempts, d.deliveries, d.retry_at, m.bytes
          FROM belfry.redrive d
         CROSS JOIN LATERAL (
                SELECT belfry.delivery_bytes(m.payload, m.transaction_id, m.producer_sub, m.headers, true) AS bytes
                  FROM belfry.message m
                 WHERE m.partition_id = d.partition_id AND m.seq = d.seq OFFSET 0) AS m
         WHERE d.partition_id = p_partition AND d.group_id = p_group
         ORDER BY d.seq LIMIT p_batch
    LOOP
        IF one.retry_at > p_now THEN
            v_waiting_seq := one.seq;
            EXIT;
        ELSIF one.deliveries >= v_max_deliveries THEN
            v_given_up := array_append(v_given_up, one.seq);
        ELSIF v_bytes + one.bytes > p_bytes AND (p_delivered OR v_seqs IS NOT NULL) THEN
            v_waiting_seq := one.seq;
            EXIT;
        ELSIF one.deliveries = v_max_deliveries - 1 AND v_seqs IS NOT NULL AND p_lease IS NOT NULL THEN
            EXIT; -- the last delivery of this message must have no other message
        ELSE
            v_seqs := array_append(v_seqs, one.seq);
            v_attempts := array_append(v_attempts, one.attempts + 1);
            v_bytes := v_bytes + one.bytes;
        END IF;
        v_last := one.seq;
        EXIT WHEN one.deliveries = v_max_deliveries - 1 AND p_lease IS NOT NULL;
    END LOOP;
    -- A redrive whose message is deleted can never be delivered.
    DELETE FROM belfry.redrive d
     WHERE d.partition_id = p_partition AND d.group_id = p_group AND coalesce(d.seq < coalesce(v_last, v_waiting_seq), true)
       AND (SELECT true FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq) IS NULL;
    GET DIAGNOSTICS v_settled = ROW_COUNT;
    IF v_last IS NULL AND v_waiting_seq IS NOT NULL THEN
        IF v_settled > 0 THEN
            UPDATE belfry.cursor c SET redrives = c.redrives - v_settled WHERE c.partition_id = p_partition AND c.group_id = p_group;
        END IF;
        RETURN;
    END IF;
    IF v_given_up IS NOT NULL THEN
        v_skips := belfry.on_exhausted(p_group) = 'skip';
        WITH gone AS (
            DELETE FROM belfry.redrive d
             WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = ANY (v_given_up)
            RETURNING d.seq, d.attempts, d.deliveries
        )
        INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
        SELECT p_partition, g.seq, p_group, g.attempts,
               'delivered ' || g.deliveries || ' times since it was redriven, without success (maxDeliveries)'
          FROM gone g
         WHERE NOT v_skips
         ORDER BY g.seq
        ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
        v_settled := v_settled + cardinality(v_given_up);
        IF v_skips THEN
            r.skipped := cardinality(v_given_up);
        ELSE
            r.given_up := cardinality(v_given_up);
        END IF;
    END IF;
    r.item := 1;
    r.partition_id := p_partition;
    r.outcome := CASE WHEN v_seqs IS NULL THEN 3 ELSE 2 END;
    IF v_seqs IS NOT NULL AND p_lease IS NOT NULL THEN
        UPDATE belfry.redrive d
           SET lease_id = p_lease, attempts = d.attempts + 1, deliveries = d.deliveries + 1
         WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = ANY (v_seqs);
        UPDATE belfry.cursor c
           SET lease_id = p_lease, lease_until = p_now + p_lease_time, lease_end = -cardinality(v_seqs),
               ready_at = p_now + p_lease_time, redrives = c.redrives - v_settled
         WHERE c.partition_id = p_partition AND c.group_id = p_group
        RETURNING c.ready_at INTO r.ready_at;
    ELSE
        WITH settled AS (
            DELETE FROM belfry.redrive d
             WHERE d.partition_id = p_partition AND d.group_id = p_group AND d.seq = ANY (v_seqs)
            RETURNING d.seq, d.failures, d.attempts, d.deliveries, d.redriven_at
        )
        SELECT json_agg(s) INTO r.undo FROM settled s;
        SELECT CASE WHEN v_last IS NOT NULL THEN nullif(c.redrives - v_settled - coalesce(cardinality(v_seqs), 0), 0) END INTO v_left
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition AND c.group_id = p_group;
        UPDATE belfry.cursor c
           SET lease_id = NULL, lease_until = NULL, lease_end = NULL,
               consumed_at = CASE WHEN v_seqs IS NULL THEN c.consumed_at ELSE p_now END, redrives = v_left,
               ready_at = belfry.ready_at(p_partition, c.committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END,
                                          p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
                                          c.retry_at, v_left, p_group)
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
         WHERE c.partition_id = p_partition AND c.group_id = p_group AND p.id = p_partition
        RETURNING c.ready_at INTO r.ready_at;
        r.needs_wake := coalesce(r.ready_at > p_now, true);
    END IF;
    RETURN NEXT r;
    RETURN QUERY
    SELECT 2::smallint, p_partition, NULL::smallint, NULL::timestamptz, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, NULL::json,
           m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.headers, m.encrypted,
           CASE WHEN p_lease IS NULL THEN 0 ELSE d.attempts END,
           NULL::boolean, NULL::boolean, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
      FROM unnest(v_seqs, v_attempts) AS d(seq, attempts)
     CROSS JOIN LATERAL (
            SELECT m.seq, m.id, m.transaction_id, m.trace_id, m.payload, m.created_at, m.producer_sub, m.headers, m.encrypted
              FROM belfry.message m
             WHERE m.partition_id = p_partition AND m.seq = d.seq OFFSET 0) AS m
     ORDER BY d.seq;
END $$;

-- From sql/functions/claim/retry_delay.sql.

-- Returns the delay before a message that failed p_failures times is delivered again: p_delay
-- milliseconds after the first failure, multiplied by p_backoff for each further failure, at most p_max,
-- and then varied by up to 20 % at random. NULL: no delay.
CREATE FUNCTION belfry.retry_delay(p_delay bigint, p_backoff bigint, p_max bigint, p_failures integer) RETURNS interval LANGUAGE sql VOLATILE AS $$
    SELECT least(p_delay * power(greatest(p_backoff, 1), least(p_failures - 1, 40)), greatest(p_max, p_delay))
           * (0.8 + 0.4 * random()) * interval '1 millisecond' WHERE p_delay > 0
$$;

-- From sql/functions/claim/seq_at.sql.

-- Returns the seq just before the first stored message of a partition that is newer than p_instant, or
-- last_seq if none is newer. A group that starts at or seeks p_instant puts its cursor at this seq.
-- created_at never decreases within a partition, so a binary search finds the seq, even if messages were
-- deleted.
CREATE FUNCTION belfry.seq_at(p_partition bigint, p_instant timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    lo bigint;
    hi bigint;
    mid bigint;
    found_seq bigint;
    found_at timestamptz;
BEGIN
    SELECT trimmed, last_seq INTO lo, hi FROM belfry.partition WHERE id = p_partition;
    WHILE lo < hi LOOP
        mid := (lo + hi + 1) / 2;
        SELECT m.seq, m.created_at INTO found_seq, found_at
          FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > lo AND m.seq <= mid
         ORDER BY m.seq DESC LIMIT 1;
        IF found_seq IS NULL OR found_at <= p_instant THEN
            lo := mid;
        ELSE
            hi := found_seq - 1;
        END IF;
    END LOOP;
    RETURN lo;
END $$;

-- From sql/functions/claim/skip_beyond.sql.

-- Returns the part of p_skip that is above p_seq, or NULL if that part is empty.
CREATE FUNCTION belfry.skip_beyond(p_skip int8multirange, p_seq bigint) RETURNS int8multirange LANGUAGE sql IMMUTABLE AS $$
    SELECT nullif(p_skip * int8multirange(int8range(p_seq + 1, NULL)), '{}')
$$;

-- From sql/functions/claim/skip_undeliverable.sql.

-- Moves a locked cursor past messages that must not be delivered. belfry.claim calls it for queues with
-- expireAfterSeconds or maxDeliveries.
--
-- 1. Expired messages are older than p_expire_after seconds (0: no limit). created_at never
--    decreases, so they are a prefix of the log. With p_dead_letter_expired they become dead
--    letters, at most 1000 in one call. more is true if further expired messages are left.
-- 2. A first message that was delivered p_max_deliveries times (0: no limit) becomes a dead letter.
--    Then given_up is 1. With onExhausted = 'skip' it becomes no dead letter, and skipped is 1. With
--    onExhausted = 'block' the cursor does not move, and blocked is true.
--
-- alone is true if the first message must be delivered alone. An expired lease does not say which of its
-- messages kills the consumer. So the last attempt delivers each message of the batch alone, and only
-- the message that kills the consumer uses up its attempts.
--
-- Without p_dead_letter_expired, expired counts seqs, including deleted messages, at a constant cost.
CREATE FUNCTION belfry.skip_undeliverable(
    p_partition bigint, p_group bigint, p_now timestamptz,
    p_expire_after bigint, p_dead_letter_expired boolean, p_max_deliveries bigint
) RETURNS TABLE (moved boolean, committed bigint, skip int8multirange, expired bigint, given_up integer, skipped integer, blocked boolean, more boolean, alone boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_upto bigint;
    v_head bigint;
    c record;
BEGIN
    SELECT k.committed, k.skip, k.attempts, k.lease_end, coalesce(k.alone_until, 0) AS alone_until INTO c
      FROM belfry.cursor k
     WHERE k.partition_id = p_partition AND k.group_id = p_group;
    committed := c.committed;
    expired := 0;
    given_up := 0;
    skipped := 0;
    blocked := false;
    more := false;

    IF p_expire_after > 0 AND (
        SELECT m.created_at FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > c.committed
         ORDER BY m.seq LIMIT 1) <= p_now - make_interval(secs => p_expire_after)
    THEN
        v_upto := belfry.seq_at(p_partition, p_now - make_interval(secs => p_expire_after));
        IF p_dead_letter_expired THEN
            more := v_upto > c.committed + 1000;
            v_upto := least(v_upto, c.committed + 1000);
            INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
            SELECT p_partition, m.seq, p_group, CASE WHEN m.seq = c.committed + 1 THEN c.attempts ELSE 0 END,
                   'expired after ' || p_expire_after || ' s'
              FROM belfry.message m
             WHERE m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
             ORDER BY m.seq
            ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
            GET DIAGNOSTICS expired = ROW_COUNT;
        ELSE
            expired := v_upto - c.committed - coalesce(belfry.skipped_after(c.skip, 0) - belfry.skipped_after(c.skip, v_upto), 0);
        END IF;
        committed := v_upto;
    ELSIF p_max_deliveries > 0 AND c.attempts >= p_max_deliveries THEN
        SELECT m.seq INTO v_head
          FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
         ORDER BY m.seq LIMIT 1;
        IF v_head IS NOT NULL THEN
            CASE belfry.on_exhausted(p_group)
                WHEN 'block' THEN
                    UPDATE belfry.cursor k SET retry_at = belfry.blocked() WHERE k.partition_id = p_partition AND k.group_id = p_group;
                    blocked := true;
                WHEN 'skip' THEN
                    skipped := 1;
                    committed := v_head;
                ELSE
                    PERFORM belfry.park(p_partition, p_group, v_head, c.attempts,
                                        convert_to('delivered ' || c.attempts || ' times without success (maxDeliveries)', 'UTF8'));
                    given_up := 1;
                    committed := v_head;
            END CASE;
        END IF;
    END IF;

    moved := committed > c.committed;
    IF moved THEN
        c.attempts := 0;
        c.skip := belfry.skip_beyond(c.skip, committed);
        UPDATE belfry.cursor k
           SET committed = skip_undeliverable.committed, skip = c.skip, attempts = 0, failures = 0, retry_at = NULL,
               expired = k.expired + skip_undeliverable.expired
         WHERE k.partition_id = p_partition AND k.group_id = p_group;
    ELSIF c.attempts > 0 AND c.attempts = p_max_deliveries - 1 AND c.lease_end > greatest(c.alone_until, c.committed + 1) THEN
        c.alone_until := c.lease_end;
        UPDATE belfry.cursor k
           SET alone_until = c.lease_end
         WHERE k.partition_id = p_partition AND k.group_id = p_group;
    END IF;
    skip := c.skip;
    alone := p_max_deliveries > 0 AND (c.attempts >= p_max_deliveries - 1 OR c.alone_until > committed);
    RETURN NEXT;
END $$;

-- From sql/functions/claim/skipped_after.sql.

-- Counts the seqs of p_skip that are above p_seq. Returns NULL if p_skip is NULL.
CREATE FUNCTION belfry.skipped_after(p_skip int8multirange, p_seq bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT coalesce(sum(upper(s.part) - lower(s.part)), 0)::bigint
      FROM (SELECT unnest(p_skip * int8multirange(int8range(p_seq + 1, NULL))) AS part) AS s
$$;

-- From sql/functions/consume/check_consumer.sql.

-- Raises an error if a name is invalid. Raises 42501 if the role of the session may not consume the queue
-- as the group. The result does not depend on whether the queue exists.
CREATE FUNCTION belfry.check_consumer(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM belfry.check_names(p_queue, p_group);
    IF NOT belfry.may_consume(p_queue, p_group) THEN
        RAISE EXCEPTION 'role % may not consume queue % as group %', quote_ident(belfry.calling_role()), quote_literal(p_queue), quote_literal(p_group)
            USING ERRCODE = 'insufficient_privilege',
                HINT = format('The owner of the schema, or a member of belfry_admin, runs: SELECT belfry.grant_consume(%L, %L, %L);',
                              belfry.calling_role(), p_queue, p_group);
    END IF;
END $$;

-- From sql/functions/consume/check_lease.sql.

-- Raises BF010 if the role of the session may not consume the queue of the lease as its group. A lease
-- that never existed causes the same error. The function takes no locks, so it never waits.
CREATE FUNCTION belfry.check_lease(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM belfry.queue_grant k WHERE k.kind = 'consume') AND EXISTS (
        SELECT FROM belfry.cursor c
          JOIN belfry.consumer_group g ON g.id = c.group_id
          JOIN belfry.queue q ON q.id = g.queue_id
         WHERE c.lease_id = p_lease AND NOT belfry.may_consume(q.name, g.name))
    THEN
        PERFORM belfry.raise_lease_lost(p_lease);
    END IF;
END $$;

-- From sql/functions/consume/check_names.sql.

-- Raises an error if a queue name or a group name is NULL, empty, . or .., longer than 255 bytes or not
-- valid UTF-8.
CREATE FUNCTION belfry.check_names(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM pg_catalog.convert_to(p_queue, 'UTF8'), pg_catalog.convert_to(p_group, 'UTF8');
    IF coalesce(octet_length(p_queue) NOT BETWEEN 1 AND 255 OR p_queue IN ('.', '..'), true) THEN
        RAISE EXCEPTION 'the name of the queue is %', coalesce(CASE WHEN p_queue IN ('.', '..') THEN p_queue ELSE octet_length(p_queue) || ' bytes long' END, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.';
    ELSIF coalesce(octet_length(p_group) NOT BETWEEN 1 AND 255 OR p_group IN ('.', '..'), true) THEN
        RAISE EXCEPTION 'the name of the consumer group is %', coalesce(CASE WHEN p_group IN ('.', '..') THEN p_group ELSE octet_length(p_group) || ' bytes long' END, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.';
    END IF;
END $$;

-- From sql/functions/consume/extend.sql.

-- Extends a lease to now + seconds, and never shortens it. Returns the instant at which the lease ends.
-- Raises BF010 if the lease is over, as belfry.ack does.
CREATE FUNCTION belfry.extend(lease uuid, seconds bigint) RETURNS timestamptz LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v_until timestamptz;
    v_group bigint;
    v_partition bigint;
BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. If belfry.pop returned no rows, there is nothing to extend.';
    ELSIF seconds IS NULL OR seconds NOT BETWEEN 1 AND 31536000 THEN
        RAISE EXCEPTION 'a lease can be extended by 1 second to 1 year' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('seconds is %s.', coalesce(seconds::text, 'NULL')), HINT = 'A year has 31536000 seconds.';
    END IF;
    PERFORM belfry.check_lease(lease);
    -- The UPDATE reads the clock under this lock; see belfry.take_slot.
    PERFORM FROM belfry.cursor c WHERE c.lease_id = extend.lease AND c.lease_until > clock_timestamp() FOR NO KEY UPDATE;
    UPDATE belfry.cursor c
       SET lease_until = greatest(c.lease_until, clock_timestamp() + make_interval(secs => seconds)),
           ready_at = greatest(c.lease_until, clock_timestamp() + make_interval(secs => seconds))
     WHERE c.lease_id = extend.lease AND c.lease_until > clock_timestamp()
       AND EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.id = c.group_id)
    RETURNING c.lease_until, c.group_id, c.partition_id INTO v_until, v_group, v_partition;
    IF v_until IS NULL THEN
        PERFORM belfry.raise_lease_lost(lease);
    END IF;
    PERFORM belfry.announce_ready(v_group, v_partition);
    RETURN v_until;
END $$;
REVOKE ALL ON FUNCTION belfry.extend(uuid, bigint) FROM PUBLIC;

-- From sql/functions/consume/load_scan_floor.sql.

-- Returns the scan floor of this session, or -infinity. A pop from any partition scans only the cursors
-- whose ready_at is at or above the floor. While a transaction keeps an old snapshot, vacuum cannot
-- remove dead index entries, and each scan reads all of them again. The floor skips those entries. The
-- risk: a pop does not find a cursor that becomes ready with a ready_at below the floor. These rules
-- limit the risk:
--
-- 1. Only a scan of more than 2 ms stores a floor. The floor expires after twenty times the
--    duration of that scan, and after at most ten seconds.
-- 2. The floor is not above the lowest ready_at that the scan saw. Cursors that other sessions have
--    locked, and cursors without messages, count too.
-- 3. The floor is at least half a second before the statement. Only a transaction that commits more
--    than half a second after it computed a ready_at can commit a ready_at below the floor.
-- 4. A REPEATABLE READ transaction stores no floor: its snapshot may be older than the statement.
--
-- p_setting names a setting of the session for one group, because a connection pool may pass the session
-- to a client of another group. A rollback of the transaction restores the setting. Any session can
-- write the setting, so the pattern accepts only digits.
CREATE FUNCTION belfry.load_scan_floor(p_setting text, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- The floor, and the instant at which it expires, in microseconds.
    v_kept text[] := regexp_match(current_setting(p_setting, true), '^([0-9]{1,16})/([0-9]{1,16})$');
BEGIN
    IF to_timestamp(v_kept[2]::bigint / 1e6) BETWEEN p_now AND p_now + interval '10 seconds' THEN
        RETURN to_timestamp(v_kept[1]::bigint / 1e6);
    END IF;
    RETURN '-infinity';
END $$;

-- From sql/functions/consume/pop.sql.

-- Takes messages for the group, from the named partition or from due partitions. batch limits messages, and
-- partitions limits partitions. The partition that has been due the longest comes first. Returns no
-- rows if nothing is due, or if other sessions have locked all due cursors. The first pop registers the
-- group. While the group joins the queue, a pop that finds nothing creates more cursors, until it finds
-- a message or all cursors exist. Then it locks the row of the group until the commit; see join_page.
--
-- Each partition has its own lease. Until the commit the row lock protects the messages: after a
-- rollback they are due at once, and the delivery does not count. After the commit the lease protects
-- them for the queue's leaseTime. attempt counts the committed deliveries of the first message,
-- including this one.
--
-- Locks one cursor for each partition it takes messages from, in a subtransaction. If the claim returns
-- nothing, the subtransaction is rolled back and releases the lock, because this transaction may last
-- long. The scan starts at the floor of the session; see load_scan_floor.
CREATE FUNCTION belfry.pop(
    queue text, consumer_group text DEFAULT '__QUEUE_MODE__', batch integer DEFAULT 1, partition text DEFAULT NULL,
    partitions integer DEFAULT 1
) RETURNS TABLE (
    lease uuid, partition_name text, seq bigint, message_id uuid, transaction_id text, trace_id uuid, payload json,
    created_at timestamptz, attempt integer, headers json
) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET synchronous_commit = on SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_queue record;
    v_group bigint;
    v_joining boolean; -- the group has no cursor yet in some partitions
    v_partition bigint;
    v_lease uuid;
    v_room bigint := pop.batch;
    v_partitions_left integer := pop.partitions;
    v_received bigint;
    v_skipped boolean;
    v_limited boolean := false; -- the limits of the group allow no more
    v_now timestamptz := clock_timestamp();
    k record;
    r record;
    v_floor_setting text; -- the name of the setting with the floor of this session
    v_floor timestamptz := '-infinity';
    v_lowest timestamptz;
    v_took interval;
BEGIN
    PERFORM belfry.check_consumer(pop.queue, pop.consumer_group);
    IF coalesce(pop.batch, 0) NOT BETWEEN 1 AND 10000 OR coalesce(pop.partitions, 0) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a pop takes 1 to 10000 messages from 1 to 1000 partitions' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('batch is %s, partitions is %s.', coalesce(pop.batch::text, 'NULL'), coalesce(pop.partitions::text, 'NULL'));
    END IF;
    SELECT q.id, q.encryption_enabled INTO v_queue FROM belfry.queue q WHERE q.name = pop.queue AND coalesce(q.deleted_at, 'infinity') = 'infinity';
    IF NOT FOUND THEN
        RETURN;
    ELSIF v_queue.encryption_enabled THEN
        PERFORM belfry.raise_sealed(pop.queue);
    END IF;
    IF pop.partition IS NOT NULL THEN
        SELECT p.id INTO v_partition FROM belfry.partition p WHERE p.queue_id = v_queue.id AND p.name = pop.partition;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT g.id, v_partition IS NULL AND g.joined_upto IS NOT NULL INTO v_group, v_joining
      FROM belfry.consumer_group g
     WHERE g.queue_id = v_queue.id AND g.name = pop.consumer_group
       AND (g.whole_queue AND (v_partition IS NULL OR g.joined_upto IS NULL) OR EXISTS (SELECT 1 FROM belfry.cursor c WHERE c.partition_id = v_partition AND c.group_id = g.id));
    IF NOT FOUND THEN
        v_group := belfry.join_in_transaction(pop.queue, pop.consumer_group, pop.partition, 'all', NULL);
        SELECT v_partition IS NULL AND g.joined_upto IS NOT NULL INTO v_joining FROM belfry.consumer_group g WHERE g.id = v_group;
    END IF;

    IF (SELECT q.paused FROM belfry.queue q WHERE q.id = v_queue.id) OR (SELECT g.paused FROM belfry.consumer_group g WHERE g.id = v_group) THEN
        RETURN; -- a resume notifies waiting sessions
    END IF;
    PERFORM belfry.check_limits(v_group);

    -- A joining group has no floor: a commit of join_page may make cursors ready below it.
    IF v_partition IS NULL AND NOT v_joining THEN
        v_floor_setting := 'belfry.floor_' || v_group;
        v_floor := belfry.load_scan_floor(v_floor_setting, v_now);
    END IF;
    LOOP
    FOR k IN
        SELECT d.at, d.partition_id, p.name, d.ready_at, NOT p.paused AND (p.last_seq > d.committed OR d.redrives > 0) AS filled
          FROM (SELECT a.at, a.partition_id, a.committed, a.redrives, a.ready_at
                  FROM (SELECT c.ctid AS at, c.partition_id, c.committed, c.redrives, c.ready_at
                          FROM belfry.cursor c
                         WHERE v_partition IS NULL AND c.group_id = v_group AND c.ready_at >= v_floor AND c.ready_at <= v_now
                         ORDER BY c.ready_at) AS a
                UNION ALL
                -- coalesce: avoids the index cursor_ready.
                SELECT o.at, o.partition_id, o.committed, o.redrives, o.ready_at
                  FROM (SELECT c.ctid AS at, c.partition_id, c.committed, c.redrives, c.ready_at
                          FROM belfry.cursor c
                         WHERE c.partition_id = v_partition AND c.group_id >= v_group AND c.group_id <= v_group
                           AND coalesce(c.ready_at <= v_now, false)
                         ORDER BY c.group_id DESC LIMIT 1) AS o) AS d
         CROSS JOIN LATERAL (SELECT p.last_seq, p.name, p.paused FROM belfry.partition p
                              WHERE p.id >= d.partition_id AND p.id <= d.partition_id
                              ORDER BY p.id DESC LIMIT 1) AS p
    LOOP
        IF v_took IS NULL THEN
            v_took := clock_timestamp() - v_now;
            v_lowest := k.ready_at;
        END IF;
        EXIT WHEN v_room <= 0 OR v_partitions_left <= 0 OR v_limited;
        CONTINUE WHEN k.filled IS NOT TRUE;
        v_received := 0;
        v_skipped := false;
        v_lease := gen_random_uuid();
        BEGIN
            -- Skips a cursor that another session holds. belfry.claim would search all versions of the
            -- row. A cursor that changed since the selection is not skipped.
            PERFORM FROM belfry.cursor c WHERE c.ctid = k.at FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                PERFORM FROM belfry.cursor c WHERE c.ctid = k.at;
                CONTINUE WHEN FOUND;
            END IF;
            FOR r IN
                SELECT c.* FROM belfry.claim(v_group, k.partition_id, 1, v_room, v_lease) AS c
            LOOP
                IF r.item = 1 THEN
                    v_skipped := v_skipped OR r.expired IS NOT NULL OR r.given_up IS NOT NULL OR r.skipped IS NOT NULL OR r.ready_at = belfry.blocked();
                    v_limited := v_limited OR r.outcome = 6;
                ELSIF r.item = 2 THEN
                    IF r.encrypted THEN
                        PERFORM belfry.raise_sealed(pop.queue);
                    END IF;
                    v_received := v_received + 1;
                    lease := v_lease;
                    partition_name := k.name;
                    seq := r.seq;
                    message_id := r.id;
                    transaction_id := r.transaction_id;
                    trace_id := r.trace_id;
                    payload := r.payload;
                    created_at := r.created_at;
                    attempt := r.attempt;
                    headers := r.headers;
                    RETURN NEXT;
                END IF;
            END LOOP;
            IF v_received = 0 AND v_skipped THEN
                -- The claim skipped messages (expired, or delivered too often) or blocked the cursor, so it is not rolled back.
                UPDATE belfry.cursor c
                   SET ready_at = clock_timestamp()
                 WHERE c.partition_id = k.partition_id AND c.group_id = v_group
                   AND (c.ready_at IS NULL OR c.redrives > 0 AND c.lease_id IS NULL);
                PERFORM belfry.announce_ready(v_group, k.partition_id);
            ELSIF v_received = 0 THEN
                RAISE EXCEPTION 'nothing was taken' USING ERRCODE = 'BF012';
            END IF;
        EXCEPTION WHEN SQLSTATE 'BF012' THEN
            NULL; -- the rollback has released the lock
        END;
        v_room := v_room - v_received;
        IF v_received > 0 THEN
            v_partitions_left := v_partitions_left - 1;
            PERFORM belfry.announce_ready(v_group, k.partition_id);
        END IF;
    END LOOP;
    -- A pop that found nothing continues the join of its group.
    EXIT WHEN NOT v_joining OR v_room < pop.batch OR v_limited;
    v_joining := NOT belfry.join_page_in_transaction(v_group);
    v_now := clock_timestamp();
    END LOOP;
    IF v_floor = '-infinity' AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM belfry.save_scan_floor(v_floor_setting, v_lowest, v_now, coalesce(v_took, clock_timestamp() - v_now));
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.pop(text, text, integer, text, integer) FROM PUBLIC;

-- From sql/functions/consume/raise_lease_lost.sql.

-- Raises BF010: the lease is over, or never existed. The text has both reasons why a lease is over,
-- because the database does not store which reason applies.
CREATE FUNCTION belfry.raise_lease_lost(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lease % is over, or never existed', p_lease USING ERRCODE = 'BF010',
        DETAIL = 'Either all its messages were acknowledged, or they are due again and may have been delivered to another consumer.',
        HINT = 'Roll back and pop again, unless the messages were acknowledged. '
            'For work that takes longer than the queue''s leaseTime, call belfry.extend(lease, seconds) in time.';
END $$;

-- From sql/functions/consume/raise_sealed.sql.

-- Raises BF011: the payloads of the queue are encrypted, and the database has no key.
CREATE FUNCTION belfry.raise_sealed(p_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the payloads of queue % are encrypted, and the database has no key', quote_literal(p_queue) USING ERRCODE = 'BF011',
        HINT = 'Consume the queue through the HTTP API.';
END $$;

-- From sql/functions/consume/save_scan_floor.sql.

-- Stores the floor of the next scans in a setting of the session; see load_scan_floor. p_lowest:
-- the lowest ready_at that the scan saw. p_now: the start of the scan. p_took: its duration.
CREATE FUNCTION belfry.save_scan_floor(p_setting text, p_lowest timestamptz, p_now timestamptz, p_took interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_setting IS NOT NULL AND p_took > interval '2 milliseconds' THEN
        PERFORM set_config(p_setting, format('%s/%s',
            floor(extract(epoch FROM least(p_lowest, statement_timestamp() - interval '500 milliseconds')) * 1000000)::bigint,
            floor(extract(epoch FROM p_now + least(20 * p_took, interval '10 seconds')) * 1000000)::bigint), false);
    END IF;
END $$;

-- From sql/functions/consume/subscribe.sql.

-- Registers a consumer group on a queue. Without this call, the first pop of the group registers it.
-- mode 'all' starts at the first message, 'new' after the newest message, 'timestamp' after the last
-- message stored at or before start_at. An existing group keeps its mode and start.
--
-- Locks the queue until the end of the transaction, so no session can create a partition of the queue
-- meanwhile. So commit right after the call. The call creates 2,000 cursors, and pops create the others.
CREATE FUNCTION belfry.subscribe(queue text, consumer_group text, mode text DEFAULT 'all', start_at timestamptz DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    PERFORM belfry.check_consumer(queue, consumer_group);
    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''all'', ''new'' or ''timestamp''.';
    ELSIF mode = 'timestamp' AND start_at IS NULL THEN
        RAISE EXCEPTION 'the subscription ''timestamp'' has no start_at' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give the instant after which the group starts: belfry.subscribe(queue, consumer_group, ''timestamp'', now() - interval ''1 hour'').';
    ELSIF mode <> 'timestamp' AND start_at IS NOT NULL THEN
        RAISE EXCEPTION 'the subscription % has a start_at', quote_literal(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give start_at only with ''timestamp''.';
    ELSIF start_at > clock_timestamp() THEN
        RAISE EXCEPTION 'start_at is in the future' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Register the group through the HTTP API, or use mode ''new''.';
    ELSIF belfry.join_in_transaction(queue, consumer_group, NULL, mode, start_at) IS NULL THEN
        RAISE EXCEPTION 'there is no queue %', quote_literal(queue) USING ERRCODE = 'undefined_object',
            HINT = 'The first message pushed to a queue creates it. The HTTP API can also create it (configure).';
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.subscribe(text, text, text, timestamptz) FROM PUBLIC;

-- From sql/functions/database/advance_ids.sql.

-- Moves every id sequence past the ids in use, and returns the tables whose sequence moved. Logical
-- replication copies rows and not sequences. So after a subscription filled the tables, ids would be
-- assigned twice. A sequence that is not behind costs one index probe. If a row has a higher id, the
-- sequence is read again, because the row may be new. A sequence moves a million ids past the highest
-- id, because other sessions may draw ids meanwhile.
CREATE FUNCTION belfry.advance_ids() RETURNS text[] LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    c_left_out CONSTANT bigint := 1000000;
    v_ids record;
    v_next bigint;
    v_highest bigint;
    v_advanced text[] := '{}';
BEGIN
    FOR v_ids IN
        SELECT s.oid::regclass AS sequence, a.attrelid::regclass AS "table", a.attname AS "column"
          FROM pg_class s
          JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
          JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
         WHERE s.relkind = 'S' AND s.relnamespace = 'belfry'::regnamespace
         ORDER BY a.attrelid
    LOOP
        EXECUTE format('SELECT last_value + is_called::int FROM %s', v_ids.sequence) INTO v_next;
        EXECUTE format('SELECT max(%I) FROM %s WHERE %1$I >= $1', v_ids."column", v_ids."table") INTO v_highest USING v_next;
        CONTINUE WHEN v_highest IS NULL;
        EXECUTE format('SELECT last_value + is_called::int FROM %s', v_ids.sequence) INTO v_next;
        CONTINUE WHEN v_highest < v_next;
        PERFORM setval(v_ids.sequence, v_highest + c_left_out);
        v_advanced := v_advanced || v_ids."table"::text;
    END LOOP;
    RETURN v_advanced;
END $$;
REVOKE ALL ON FUNCTION belfry.advance_ids() FROM PUBLIC;

-- From sql/functions/database/baseline.sql.

-- The marker of the baseline migration. The comment on it is a digest of the migration. pkg/postgres/migrate
-- refuses a database with a schema version and no marker: an unreleased version of Belfry created it.
CREATE FUNCTION belfry.baseline() RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT 1
$$;

-- From sql/functions/database/epoch.sql.

-- Returns the epoch of the data. The epoch changes when Postgres starts again, for example on a standby
-- or on restored files, and when the table partition is rewritten, restored or truncated. In a new epoch
-- an id may belong to another row, so a server then drops everything that it knows by id.
CREATE FUNCTION belfry.epoch() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT ((date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint << 8)
           # pg_relation_filenode('belfry.partition'::regclass)::bigint
$$;

-- From sql/functions/grants/calling_role.sql.

-- Returns the role of the session: the role of SET ROLE, or else the role that logged in. In a SECURITY
-- DEFINER function current_user is the owner of the function, and not the calling role.
CREATE FUNCTION belfry.calling_role() RETURNS name LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;
END $$;

-- From sql/functions/grants/change_grant.sql.

-- Gives a grant, or revokes it. Only the owner of the schema and admins may execute it. The caller writes the
-- row of the audit.
--
-- The first grant to push creates the trigger on the inbox. The creation waits up to 5 seconds for open
-- transactions that have pushed, and later pushes wait meanwhile. The trigger does not exist from the
-- start, because it costs 1 to 3 % of the CPU time of an insert of 1,000 rows: Postgres copies the rows.
CREATE FUNCTION belfry.change_grant(p_kind text, p_role name, p_queue text, p_group text, p_revoke boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM belfry.check_names(p_queue, p_group);
    IF p_revoke THEN
        UPDATE belfry.queue_grant g SET revoked_at = clock_timestamp()
         WHERE g.kind = p_kind AND pg_get_userbyid(g.grantee) = p_role AND g.queue = p_queue AND g.consumer_group = p_group
           AND g.revoked_at IS NULL;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'role % has no such grant', quote_nullable(p_role) USING ERRCODE = 'undefined_object',
                HINT = 'Use the patterns of the grant. SELECT * FROM belfry.grants shows them.';
        END IF;
    ELSIF to_regrole(quote_ident(p_role)) IS NULL THEN
        RAISE EXCEPTION 'role % does not exist', quote_nullable(p_role) USING ERRCODE = 'undefined_object',
            HINT = 'Write the name without double quotes.';
    ELSE
        INSERT INTO belfry.queue_grant AS g (kind, grantee, queue, consumer_group, granted_by)
        VALUES (p_kind, quote_ident(p_role)::regrole, p_queue, p_group, belfry.calling_role())
        ON CONFLICT (kind, grantee, queue, consumer_group) DO UPDATE
           SET granted_by = excluded.granted_by, granted_at = excluded.granted_at, revoked_at = NULL
         WHERE g.revoked_at IS NOT NULL;
    END IF;
    IF NOT p_revoke AND p_kind = 'push' AND NOT belfry.pushes_are_checked() THEN
        CREATE OR REPLACE TRIGGER check_grants AFTER INSERT ON belfry.inbox
            REFERENCING NEW TABLE AS belfry_new FOR EACH STATEMENT EXECUTE FUNCTION belfry.inbox_check();
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'a transaction has pushed and is still open' USING ERRCODE = 'lock_not_available',
        HINT = 'Run this again. The first grant to push waits up to 5 seconds for such transactions.';
END $$;
REVOKE ALL ON FUNCTION belfry.change_grant(text, name, text, text, boolean) FROM PUBLIC;

-- From sql/functions/grants/change_grant_in_session.sql.

-- Runs belfry.grant_push and its siblings: changes a grant in a SQL session and writes a row of the audit.
CREATE FUNCTION belfry.change_grant_in_session(p_kind text, p_role name, p_queue text, p_group text, p_revoke boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM belfry.change_grant(p_kind, p_role, p_queue, p_group, p_revoke);
    INSERT INTO belfry.audit (id, subject, address, request_id, action, parameters, counts, result)
    VALUES (belfry.uuid_v7(), belfry.calling_role(), 'sql', gen_random_uuid()::text, CASE WHEN p_revoke THEN 'grant.revoke' ELSE 'grant.give' END,
            json_build_object('kind', p_kind, 'role', p_role, 'queue', p_queue, 'consumerGroup', p_group), '{}', 'ok');
END $$;

-- From sql/functions/grants/check_push_grants.sql.

-- Raises 42501 if a role may not push to one of the queues. The caller must have the rights of the
-- role, or it does not see the grants of the role. The caller must also have a fixed search path.
CREATE FUNCTION belfry.check_push_grants(p_role name, p_queues text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_queue text;
BEGIN
    WITH held AS MATERIALIZED (
        SELECT g.queue FROM belfry.grants g WHERE g.kind = 'push' AND pg_has_role(p_role, g.role_id, 'USAGE')
    )
    SELECT left(min(q.name), 255) INTO v_queue FROM unnest(p_queues) AS q(name)
     WHERE NOT EXISTS (SELECT FROM held h WHERE belfry.matches(q.name, h.queue));
    IF v_queue IS NOT NULL AND NOT has_table_privilege(p_role, 'belfry.queue_grant', 'UPDATE') THEN
        RAISE EXCEPTION 'role % may not push to queue %', quote_ident(p_role), quote_literal(v_queue) USING ERRCODE = 'insufficient_privilege',
            HINT = format('The owner of the schema, or a member of belfry_admin, runs: SELECT belfry.grant_push(%L, %L);', p_role, v_queue);
    END IF;
END $$;

-- From sql/functions/grants/grant_consume.sql.

-- Lets a role consume the queues whose names match the pattern, as the groups whose names match
-- consumer_group. After the first grant to consume, each role needs such a grant; see grant_push.
CREATE FUNCTION belfry.grant_consume(role name, queue text, consumer_group text DEFAULT '*') RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('consume', $1, $2, $3, false)
$$;

-- From sql/functions/grants/grant_push.sql.

-- Lets a role push to the queues whose names match the pattern. After the first grant to push, each
-- role needs such a grant, except the owner of the schema, admins and superusers.
CREATE FUNCTION belfry.grant_push(role name, queue text) RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('push', $1, $2, '*', false)
$$;

-- From sql/functions/grants/inbox_check.sql.

-- The trigger on belfry.inbox that checks grants; see change_grant. It runs with the rights of the
-- statement, so current_user is the role that inserts: after SET ROLE the new role, and for an attached
-- table the owner of the table. With the fixed search path the caller cannot replace an operator. A
-- producer cannot turn the trigger off with a setting.
CREATE FUNCTION belfry.inbox_check() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM belfry.check_push_grants(current_user, ARRAY(SELECT DISTINCT n.queue FROM belfry_new n));
    RETURN NULL;
END $$;

-- From sql/functions/grants/matches.sql.

-- Reports whether a pattern matches a name. In a pattern * matches any run of characters, also an empty
-- one. Every other character matches itself. The body uses E strings: a plain string with a backslash
-- means something else in a session with standard_conforming_strings = off.
CREATE FUNCTION belfry.matches(p_name text, p_pattern text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_name COLLATE "C" LIKE replace(replace(replace(replace(p_pattern, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%')
$$;

-- From sql/functions/grants/may_consume.sql.

-- Reports whether the role of the session may consume the queue as the group. Its callers are
-- SECURITY DEFINER functions with a fixed search path.
CREATE FUNCTION belfry.may_consume(p_queue text, p_group text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM belfry.queue_grant g WHERE g.kind = 'consume')
        OR has_table_privilege(belfry.calling_role(), 'belfry.queue_grant', 'UPDATE')
        OR EXISTS (SELECT FROM belfry.queue_grant g
                    WHERE g.kind = 'consume' AND g.revoked_at IS NULL AND belfry.matches(p_queue, g.queue)
                      AND belfry.matches(p_group, g.consumer_group) AND pg_has_role(belfry.calling_role(), g.grantee, 'USAGE'));
END $$;

-- From sql/functions/grants/pushes_are_checked.sql.

-- Reports whether the inbox has the trigger that checks grants. Belfry never drops the trigger.
CREATE FUNCTION belfry.pushes_are_checked() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'belfry.inbox'::regclass AND t.tgname = 'check_grants');
END $$;

-- From sql/functions/grants/revoke_consume.sql.

-- Revokes the grant that grant_consume gave with the same patterns, from the next call of the role on.
CREATE FUNCTION belfry.revoke_consume(role name, queue text, consumer_group text DEFAULT '*') RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('consume', $1, $2, $3, true)
$$;

-- From sql/functions/grants/revoke_push.sql.

-- Revokes the grant that grant_push gave with the same pattern, from the next statement of the role on.
CREATE FUNCTION belfry.revoke_push(role name, queue text) RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('push', $1, $2, '*', true)
$$;

-- From sql/functions/groups/create_cursors.sql.

-- Creates the missing cursors of group p_group in p_partitions. They start after the last message stored
-- at or before p_start, or at the first message if p_start is NULL. A start in the future is stored.
--
-- The caller holds a lock, so that no other session creates cursors of the group; see join_group and
-- join_page. A push that commits meanwhile may miss a new cursor. So the function returns the partitions
-- whose new cursor is not ready, and a wake of these partitions must follow the commit.
CREATE FUNCTION belfry.create_cursors(p_group bigint, p_partitions bigint[], p_start timestamptz) RETURNS bigint[] LANGUAGE sql AS $$
    WITH made AS (
        INSERT INTO belfry.cursor (partition_id, group_id, tenant_id, committed, start_at, ready_at)
        SELECT s.id, p_group, s.tenant_id, s.committed, CASE WHEN p_start > clock_timestamp() THEN p_start END,
               belfry.ready_at(s.id, s.committed, s.last_seq, s.last_push_at, s.visible_until,
                               s.delayed_processing, s.window_buffer, NULL, NULL)
          FROM (SELECT p.id, p.tenant_id, p.last_seq, p.last_push_at, p.visible_until, g.delayed_processing, g.window_buffer,
                       CASE WHEN p_start IS NULL THEN p.trimmed
                            WHEN p.last_push_at <= p_start THEN p.last_seq
                            ELSE belfry.seq_at(p.id, p_start)
                       END AS committed
                  FROM (SELECT q.delayed_processing, q.window_buffer
                          FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id
                         WHERE g.id = p_group OFFSET 0) AS g
                 CROSS JOIN unnest(p_partitions) AS w(id)
                 CROSS JOIN LATERAL (
                        SELECT p.id, p.tenant_id, p.last_seq, p.last_push_at, p.visible_until, p.trimmed FROM belfry.partition p
                         WHERE p.id >= w.id AND p.id <= w.id
                         ORDER BY p.id DESC LIMIT 1) AS p
                 WHERE (SELECT c.group_id FROM belfry.cursor c WHERE c.partition_id = p.id AND c.group_id = p_group) IS NULL
                OFFSET 0) AS s
        RETURNING partition_id, ready_at
    )
    SELECT coalesce(array_agg(made.partition_id ORDER BY made.partition_id), '{}') FROM made WHERE made.ready_at IS NULL
$$;

-- From sql/functions/groups/join_group.sql.

-- Registers a consumer group at its first pop: for every partition, or only for p_partition. A stored
-- mode and start of the group, even if the group was deleted, override p_mode and p_start. Mode 'new'
-- starts at p_start or now. joining is true until belfry.join_page has created the cursors of all
-- partitions. The cursor of p_partition exists after the call.
--
-- Returns no row for an unknown queue. The registration locks the queue with FOR NO KEY UPDATE until the
-- commit, so no partition is created. A wake of the partitions in unready must follow the commit.
CREATE FUNCTION belfry.join_group(
    p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz
) RETURNS TABLE (queue_id bigint, group_id bigint, joining boolean, unready bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue bigint;
    v_group belfry.consumer_group;
    v_partitions bigint[];
    v_start timestamptz := CASE p_mode WHEN 'new' THEN coalesce(p_start, clock_timestamp()) WHEN 'timestamp' THEN p_start END;
BEGIN
    SELECT q.id INTO v_queue FROM belfry.queue q WHERE q.name = p_queue AND q.deleted_at IS NULL;
    SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group;
    unready := '{}';
    IF NOT coalesce(v_group.whole_queue, false) THEN
        SELECT q.id INTO v_queue FROM belfry.queue q
         WHERE q.name = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue, joined_upto, limits_id)
        VALUES (v_queue, p_group, p_mode, v_start, p_partition IS NULL, CASE WHEN p_partition IS NULL THEN '' END,
                belfry.limits_of(v_queue, p_group))
        ON CONFLICT (queue_id, name) DO NOTHING;
        SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group;
        IF p_partition IS NULL AND NOT v_group.whole_queue THEN
            UPDATE belfry.consumer_group g
               SET whole_queue = true, joined_upto = '',
                   mode = CASE WHEN g.kept THEN g.mode ELSE p_mode END,
                   start_at = CASE WHEN g.kept THEN g.start_at ELSE v_start END
             WHERE g.id = v_group.id
            RETURNING g.* INTO v_group;
        END IF;
    END IF;
    IF p_partition IS NOT NULL THEN
        v_partitions := ARRAY (SELECT p.id FROM belfry.partition p WHERE p.queue_id = v_queue AND p.name = p_partition);
        IF NOT v_group.whole_queue THEN
            unready := belfry.create_cursors(v_group.id, v_partitions, CASE WHEN v_group.kept THEN v_group.start_at ELSE v_start END);
        ELSIF v_group.joined_upto IS NOT NULL THEN
            SELECT j.unready INTO unready FROM belfry.join_page(v_group.id, 1, v_partitions) AS j;
        END IF;
    END IF;
    RETURN QUERY SELECT v_queue, v_group.id, v_group.joined_upto IS NOT NULL, unready;
END $$;

-- From sql/functions/groups/join_in_transaction.sql.

-- Registers a group inside the transaction of a SQL consumer, and returns the id of the group, or NULL
-- for an unknown queue. It creates the cursors in the first page of partitions. Later calls of
-- belfry.pop, and the servers, create the others.
CREATE FUNCTION belfry.join_in_transaction(p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    j record;
BEGIN
    SELECT k.group_id, k.joining, k.unready INTO j FROM belfry.join_group(p_queue, p_group, p_partition, p_mode, p_start) AS k;
    PERFORM belfry.mark_ready(j.group_id, j.unready);
    IF p_partition IS NULL AND j.joining THEN
        PERFORM belfry.join_page_in_transaction(j.group_id);
    END IF;
    RETURN j.group_id;
END $$;

-- From sql/functions/groups/join_page.sql.

-- Creates cursors of a group that joins its queue, in the next p_limit partitions by name, or in
-- p_partitions. The row of the group stores the last name, so any session can continue the join. done:
-- every partition has its cursor, or the group does not join. A wake of unready must follow the commit.
--
-- A partition that was created after the group was registered has its cursor already: open_partitions
-- creates both in one transaction. So only older partitions lack a cursor.
--
-- Locks the queue (shared, so pushes to new partitions do not wait and the queue cannot be deleted),
-- then the group, so one session at a time creates its cursors. Each call writes the group, so a
-- transaction with an older snapshot fails and creates no second cursor.
CREATE FUNCTION belfry.join_page(p_group bigint, p_limit bigint, p_partitions bigint[] DEFAULT NULL)
RETURNS TABLE (done boolean, unready bigint[]) LANGUAGE plpgsql AS $$
DECLARE
    v_group belfry.consumer_group;
    v_ids bigint[] := p_partitions;
    v_last text;
BEGIN
    done := true;
    unready := '{}';
    PERFORM q.id FROM belfry.queue q
      WHERE q.id = (SELECT g.queue_id FROM belfry.consumer_group g WHERE g.id = p_group AND g.joined_upto IS NOT NULL)
        AND q.deleted_at IS NULL
        FOR SHARE;
    IF FOUND THEN
        SELECT g.* INTO v_group FROM belfry.consumer_group g
         WHERE g.id = p_group AND g.joined_upto IS NOT NULL
           FOR NO KEY UPDATE;
    END IF;
    IF v_group.id IS NOT NULL THEN
        done := false;
        v_last := v_group.joined_upto;
        IF p_partitions IS NULL THEN
            -- The next page starts with the last name of this page, because a name may be empty.
            SELECT array_agg(s.id), max(s.name), count(*) <= p_limit INTO v_ids, v_last, done
              FROM (SELECT p.id, p.name FROM belfry.partition p
                     WHERE p.queue_id = v_group.queue_id AND p.name >= v_group.joined_upto
                     ORDER BY p.queue_id, p.name
                     LIMIT p_limit + 1) AS s;
        END IF;
        unready := belfry.create_cursors(p_group, v_ids, v_group.start_at);
        UPDATE belfry.consumer_group g SET joined_upto = CASE WHEN NOT done THEN v_last END WHERE g.id = p_group;
    END IF;
    RETURN NEXT;
END $$;

-- From sql/functions/groups/join_page_in_transaction.sql.

-- Runs belfry.join_page inside the transaction of a SQL consumer. Returns whether the join is done.
CREATE FUNCTION belfry.join_page_in_transaction(p_group bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j record;
BEGIN
    SELECT k.done, k.unready INTO j FROM belfry.join_page(p_group, 2000) AS k;
    PERFORM belfry.mark_ready(p_group, j.unready);
    RETURN j.done;
END $$;

-- From sql/functions/groups/mark_ready.sql.

-- Marks the new cursors of a group in p_partitions ready although they may be empty, and announces them.
-- A push that committed meanwhile may have missed the cursors, and no wake can follow the commit of a
-- SQL session. A pop finds the messages of such a push.
CREATE FUNCTION belfry.mark_ready(p_group bigint, p_partitions bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    FOREACH v_id IN ARRAY coalesce(p_partitions, '{}') LOOP
        UPDATE belfry.cursor c
           SET ready_at = clock_timestamp()
         WHERE c.partition_id = v_id AND c.group_id = p_group AND c.ready_at IS NULL AND c.start_at IS NULL;
        IF FOUND THEN
            PERFORM belfry.announce_ready(p_group, v_id);
        END IF;
    END LOOP;
END $$;

-- From sql/functions/groups/move_cursors.sql.

-- Moves the cursors of a partition that are before p_upto to p_upto. A cursor with a live lease at p_now
-- stays. An expired lease ends. The caller, sweep_partition, holds the locks of the partition and of all
-- its cursors. So no push can commit meanwhile: ready_at is exact, and no wake is needed. Returns the
-- moved groups, and the seconds until each is ready (NULL: nothing is left).
CREATE FUNCTION belfry.move_cursors(p_partition bigint, p_upto bigint, p_now timestamptz)
RETURNS TABLE (group_id bigint, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE belfry.cursor c
       SET committed = p_upto, attempts = 0, failures = 0,
           lease_id = NULL, lease_until = NULL, lease_end = NULL,
           skip = belfry.skip_beyond(c.skip, p_upto),
           retry_at = NULL,
           ready_at = CASE WHEN c.start_at IS NULL OR c.redrives > 0
               THEN belfry.ready_at(p_partition, p_upto, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END, p.last_push_at, p.visible_until,
                                    q.delayed_processing, q.window_buffer, NULL, c.redrives, c.group_id) END
      FROM (SELECT k.group_id FROM belfry.cursor k
             WHERE k.partition_id = p_partition AND k.committed < p_upto AND coalesce(k.lease_until <= p_now, true)
            OFFSET 0) AS h
     CROSS JOIN LATERAL (
            SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until
              FROM belfry.partition p WHERE p.id = p_partition OFFSET 0) AS p
     CROSS JOIN LATERAL (
            SELECT q.delayed_processing, q.window_buffer
              FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
     WHERE c.partition_id = p_partition AND c.group_id = h.group_id
    RETURNING c.group_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8;
END $$;

-- From sql/functions/groups/seek_cursors.sql.

-- Moves the cursors of group p_group in p_partitions (ascending) to the last message stored at or before
-- p_instant. 'infinity' means after the newest message, '-infinity' before the first message. With p_before
-- and p_after, p_instant has no meaning: the function undoes a seek that moved each cursor from p_before to
-- p_after. It moves a cursor that the seek moved forward back to p_before. If the seek moved a cursor
-- backward, the function moves the cursor forward to p_before, unless the group is already there. Leases
-- end, and attempts and failures start at 0. After a move backwards or to the same position, the group
-- receives its dead letters again. After a move forward, the cursor still skips later dead letters.
-- Returns the old and the new positions. A wake must follow the commit.
--
-- If the group still joins, its missing cursors are created first.
--
-- Locks each cursor with FOR NO KEY UPDATE. The statements are for one cursor each: the cost of one
-- UPDATE joined to a page of cursors would grow with the square of the page.
CREATE FUNCTION belfry.seek_cursors(p_partitions bigint[], p_group bigint, p_instant timestamptz, p_before bigint[] DEFAULT NULL, p_after bigint[] DEFAULT NULL)
RETURNS TABLE (moved bigint, place_before bigint, place bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_i integer := 0;
    v_id bigint;
    v_to bigint;
    k record;
    f record;
BEGIN
    PERFORM belfry.join_page(p_group, 1, p_partitions);
    FOREACH v_id IN ARRAY p_partitions LOOP
        v_i := v_i + 1;
        SELECT c.committed, c.skip, c.redrives INTO k
          FROM belfry.cursor c WHERE c.partition_id = v_id AND c.group_id = p_group FOR NO KEY UPDATE;
        CONTINUE WHEN NOT FOUND;
        -- This snapshot is newer than the lock, so last_seq is not behind committed.
        SELECT p.trimmed, p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer INTO f
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
          JOIN belfry.consumer_group g ON g.id = p_group
         WHERE p.id = v_id;
        CONTINUE WHEN NOT FOUND; -- the partition or the group is being deleted
        v_to := CASE WHEN p_before IS NOT NULL THEN
                          greatest(f.trimmed, p_before[v_i], CASE WHEN p_before[v_i] >= p_after[v_i] THEN k.committed END)
                     WHEN p_instant = '-infinity' THEN f.trimmed
                     WHEN p_instant = 'infinity' OR f.last_push_at <= p_instant THEN f.last_seq
                     ELSE belfry.seq_at(v_id, p_instant) END;
        UPDATE belfry.cursor c
           SET committed = v_to,
               skip = CASE WHEN v_to > k.committed THEN belfry.skip_beyond(k.skip, v_to) END,
               attempts = 0, failures = 0, retry_at = NULL, alone_until = NULL, start_at = NULL,
               lease_id = NULL, lease_until = NULL, lease_end = NULL,
               ready_at = belfry.ready_at(v_id, v_to, f.last_seq, f.last_push_at, f.visible_until,
                                          f.delayed_processing, f.window_buffer, NULL, k.redrives, p_group)
         WHERE c.partition_id = v_id AND c.group_id = p_group;
        moved := v_id;
        place_before := k.committed;
        place := v_to;
        RETURN NEXT;
    END LOOP;
END $$;

-- From sql/functions/inbox/check_headers.sql.

-- Returns the headers of a message as they are stored: the names in lower case. An empty object is NULL.
-- Raises an error for headers that a push over HTTP would refuse; see pkg/queue/headers.go.
CREATE FUNCTION belfry.check_headers(headers json) RETURNS json LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_bad text;
    v_stored json;
    v_names bigint;
    v_different bigint;
    v_bytes bigint;
BEGIN
    IF headers IS NULL THEN
        RETURN NULL;
    ELSIF json_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'the headers are of the type %', json_typeof(headers) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give an object of texts, such as ''{"tenant": "acme"}''.';
    END IF;
    SELECT min(h.key) FILTER (WHERE h.key !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]{1,128}$' OR json_typeof(h.value) <> 'string'
                                 OR h.value #>> '{}' ~ '[\u0001-\u001f\u007f]'),
           json_object_agg(lower(h.key COLLATE "C"), h.value ORDER BY lower(h.key COLLATE "C")),
           count(*), count(DISTINCT lower(h.key COLLATE "C")), coalesce(sum(octet_length(h.key) + octet_length(h.value #>> '{}')), 0)
      INTO v_bad, v_stored, v_names, v_different, v_bytes
      FROM json_each(headers) AS h;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'the header % cannot be stored', quote_literal(left(v_bad, 200)) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A name has 1 to 128 letters, digits and characters of !#$%&''*+-.^_`|~. A value is a text without control characters.';
    ELSIF v_names > 32 OR v_bytes > 8192 OR v_different < v_names THEN
        RAISE EXCEPTION 'the message has % headers of % different names, with % bytes', v_names, v_different, v_bytes
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A message has at most 32 headers, with 8192 bytes together. Names with other case are equal.';
    END IF;
    RETURN CASE WHEN v_names > 0 THEN v_stored END;
END $$;

-- From sql/functions/inbox/check_push.sql.

-- Checks the arguments of push and push_many that apply to all messages. Returns the instant at which
-- the messages become visible.
CREATE FUNCTION belfry.check_push(p_queue text, p_delay interval, p_visible_at timestamptz)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz := p_visible_at;
BEGIN
    IF p_queue IS NULL THEN
        RAISE EXCEPTION 'the queue is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Name the queue in the first argument: belfry.push(''orders'', ''{"id": 1}'').';
    ELSIF octet_length(p_queue) NOT BETWEEN 1 AND 255 OR p_queue IN ('.', '..') THEN
        RAISE EXCEPTION 'the name of the queue is %', CASE WHEN p_queue IN ('.', '..') THEN p_queue ELSE octet_length(p_queue) || ' bytes long' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.';
    ELSIF p_delay IS NOT NULL AND p_visible_at IS NOT NULL THEN
        RAISE EXCEPTION 'delay and visible_at are both given'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give one of them.';
    ELSIF p_delay < interval '0' THEN
        RAISE EXCEPTION 'the delay % is negative', p_delay
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave delay out for a message without a delay.';
    END IF;
    IF p_delay > interval '0' THEN
        v_at := clock_timestamp() + p_delay;
    END IF;
    IF v_at > clock_timestamp() + interval '365 days' THEN
        RAISE EXCEPTION 'the message would be visible at %, more than 365 days from now', v_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a delay of at most 365 days.';
    END IF;
    RETURN v_at;
END $$;

-- From sql/functions/inbox/check_tenant.sql.

-- Returns the name of a tenant, or NULL for an empty name. Raises an error if the name is not valid.
CREATE FUNCTION belfry.check_tenant(p_tenant text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(p_tenant) > 255 OR p_tenant IN ('.', '..') THEN
        RAISE EXCEPTION 'the name of the tenant is %', CASE WHEN p_tenant IN ('.', '..') THEN p_tenant ELSE octet_length(p_tenant) || ' bytes long' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has at most 255 bytes, and is not . or .., because clients remove these from paths.';
    END IF;
    RETURN nullif(p_tenant, '');
END $$;

-- From sql/functions/inbox/inbox_delete.sql.

-- Deletes inbox rows in the transaction that appends their messages. Raises BF002 if a row is missing,
-- because another sequencer has appended the message of that row.
CREATE FUNCTION belfry.inbox_delete(p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_taken bigint;
BEGIN
    DELETE FROM belfry.inbox i WHERE i.id = ANY (p_ids);
    GET DIAGNOSTICS v_taken = ROW_COUNT;
    IF v_taken <> cardinality(p_ids) THEN
        RAISE EXCEPTION 'another sequencer has moved % of % rows of the inbox', cardinality(p_ids) - v_taken, cardinality(p_ids)
            USING ERRCODE = 'BF002';
    END IF;
END $$;

-- From sql/functions/inbox/inbox_retry.sql.

-- Puts rejected rows back at the end of the inbox: the rows with these ids, or all if ids is NULL.
-- Returns the number of rows.
CREATE FUNCTION belfry.inbox_retry(ids bigint[] DEFAULT NULL) RETURNS bigint LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM belfry.inbox_rejected r
         WHERE inbox_retry.ids IS NULL OR r.id = ANY (inbox_retry.ids)
        RETURNING r.id, r.queue, r.partition, r.payload, r.transaction_id, r.trace_id, r.visible_at, r.headers, r.tenant
    ), back AS (
        INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant)
        SELECT g.queue, g.partition, g.payload, g.transaction_id, g.trace_id, g.visible_at, g.headers, g.tenant FROM gone g ORDER BY g.id
        RETURNING 1
    )
    SELECT count(*) FROM back
$$;

-- From sql/functions/inbox/push.sql.

-- Pushes a message when the calling transaction commits. Returns the transaction id, which is
-- transaction_id or a new one. If the partition has a message with this transaction id, none is added.
-- headers is an object of texts; see check_headers. If the message creates the partition, tenant is its tenant.
CREATE FUNCTION belfry.push(
    queue text, payload json, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers json DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_at timestamptz := belfry.check_push(queue, delay, visible_at);
    v_id text := coalesce(nullif(transaction_id, ''), belfry.uuid_v7()::text);
BEGIN
    IF payload IS NULL THEN
        RAISE EXCEPTION 'belfry.push: the payload is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'For the JSON value null write ''null''. To make JSON from a row write to_json(row).';
    ELSIF octet_length(partition) > 255 OR partition IN ('.', '..') THEN
        RAISE EXCEPTION 'belfry.push: the name of the partition is %', CASE WHEN partition IN ('.', '..') THEN partition ELSE octet_length(partition) || ' bytes long' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has at most 255 bytes, and is not . or .., because clients remove these from paths.';
    ELSIF char_length(v_id) > 255 THEN
        RAISE EXCEPTION 'belfry.push: the transaction id is % characters long', char_length(v_id)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'At most 255 characters are allowed. Use a hash of the id instead.';
    END IF;
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant)
    VALUES (queue, coalesce(partition, 'Default'), payload, v_id, trace_id, v_at, belfry.check_headers(headers), belfry.check_tenant(tenant));
    RETURN v_id;
END $$;

-- Pushes a jsonb payload; see the first belfry.push.
CREATE FUNCTION belfry.push(
    queue text, payload jsonb, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers jsonb DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS text LANGUAGE sql AS $$
    SELECT belfry.push($1, $2::json, $3, $4, $5, $6, $7, $8::json, $9)
$$;

-- Pushes JSON text. Postgres chooses this function for a quoted payload without a type.
CREATE FUNCTION belfry.push(
    queue text, payload text, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers json DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_payload json;
BEGIN
    BEGIN
        v_payload := payload::json;
    EXCEPTION WHEN invalid_text_representation THEN
        RAISE EXCEPTION 'belfry.push: the payload is not valid JSON: %', left(payload, 80)
            USING ERRCODE = 'invalid_text_representation',
                  HINT = 'Make a JSON string from a text with to_json(x::text), and an object from a row with to_json(row).';
    END;
    RETURN belfry.push(queue, v_payload, partition, transaction_id, delay, trace_id, visible_at, headers, tenant);
END $$;

-- From sql/functions/inbox/push_many.sql.

-- Pushes many messages with one statement, in the order of the arrays. partitions, transaction_ids
-- and headers have the length of payloads, or are NULL. tenant is the tenant of the partitions that the
-- messages create. Returns the positions, from 1, and the transaction ids.
CREATE FUNCTION belfry.push_many(
    queue text, payloads json[], partitions text[] DEFAULT NULL, transaction_ids text[] DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers json[] DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS TABLE (index bigint, id text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_at timestamptz := belfry.check_push(push_many.queue, push_many.delay, push_many.visible_at);
    v_ids text[];
    v_bad bigint;
BEGIN
    IF cardinality(partitions) <> cardinality(payloads) OR cardinality(transaction_ids) <> cardinality(payloads)
        OR cardinality(headers) <> cardinality(payloads)
    THEN
        RAISE EXCEPTION 'belfry.push_many: there are % payloads, % partitions, % transaction ids and % headers',
            coalesce(cardinality(payloads), 0), coalesce(cardinality(partitions), 0), coalesce(cardinality(transaction_ids), 0),
            coalesce(cardinality(headers), 0)
            USING ERRCODE = 'array_subscript_error', HINT = 'Give one for each payload, or leave the array out.';
    END IF;
    -- unnest pairs the arrays, whatever their bounds and dimensions are.
    SELECT array_agg(coalesce(nullif(p.id, ''), belfry.uuid_v7()::text) ORDER BY p.nth),
           min(p.nth) FILTER (WHERE p.payload IS NULL OR octet_length(p.lane) > 255 OR p.lane IN ('.', '..') OR char_length(p.id) > 255)
      INTO v_ids, v_bad
      FROM unnest(payloads, partitions, transaction_ids) WITH ORDINALITY AS p(payload, lane, id, nth);
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'belfry.push_many: message % cannot be pushed', v_bad USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A payload must not be NULL, a partition has at most 255 bytes and is not . or .., a transaction id at most 255 characters.';
    END IF;
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant)
    SELECT push_many.queue, coalesce(p.lane, 'Default'), p.payload, p.id, push_many.trace_id, v_at,
           belfry.check_headers(p.headers), belfry.check_tenant(push_many.tenant)
      FROM unnest(payloads, partitions, v_ids, push_many.headers) WITH ORDINALITY AS p(payload, lane, id, headers, nth)
     ORDER BY p.nth;
    RETURN QUERY SELECT i.nth, i.id FROM unnest(v_ids) WITH ORDINALITY AS i(id, nth) ORDER BY i.nth;
END $$;

-- From sql/functions/inbox/uuid_v7.sql.

-- Returns a UUID of version 7: the first 48 bits are the time in milliseconds. UUIDs that are
-- created one after another are neighbours in an index.
CREATE FUNCTION belfry.uuid_v7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(
               overlay(uuid_send(gen_random_uuid())
                       PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
               52, 1), 53, 1), 'hex')::uuid
$$;

-- From sql/functions/inbox/wake.sql.

-- Notifies the sequencer that rows wait in the inbox. A session with belfry.notify = off should call it
-- after its last commit, or from time to time.
CREATE FUNCTION belfry.wake() RETURNS void LANGUAGE sql AS $$
    SELECT pg_catalog.pg_notify('belfry_inbox', '')
$$;

-- From sql/functions/limit/admit.sql.

-- Asks the limits of a group whether a claim may deliver up to p_want messages of the locked cursor of p_partition. room is
-- the number of messages it may deliver. next_at is set if the limits allow no further message now, and is the
-- instant at which they allow one at the latest. With p_spend the call takes the tokens of the rate. Otherwise it
-- reserves them, and belfry.spend takes them.
--
-- With a concurrency, the lease of the caller gets a place. If no lease follows, the place stays free.
CREATE FUNCTION belfry.admit(
    p_limits bigint, p_group bigint, p_partition bigint, p_lease uuid, p_want bigint, p_spend boolean, p_now timestamptz,
    OUT room bigint, OUT next_at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    l record;
    v_tokens record;
BEGIN
    next_at := belfry.pass_breaker(p_group, p_limits, p_partition, p_lease, p_now);
    IF next_at IS NOT NULL THEN
        room := 0;
        RETURN;
    END IF;
    SELECT o.concurrency, o.rate_messages, o.rate_per, o.rate_burst INTO l FROM belfry.group_limit o WHERE o.id = p_limits;
    room := p_want;
    IF l.concurrency IS NOT NULL AND p_lease IS NOT NULL THEN
        next_at := belfry.take_slot(p_group, 0, l.concurrency, p_partition, p_lease, p_now);
        IF next_at IS NOT NULL THEN
            room := 0;
            RETURN;
        END IF;
    END IF;
    IF l.rate_messages IS NOT NULL THEN
        v_tokens := belfry.take_tokens(p_group, 0, l.rate_messages, l.rate_per, l.rate_burst, p_want, p_spend);
        room := v_tokens.granted;
        next_at := v_tokens.next_at;
    END IF;
END $$;

-- From sql/functions/limit/announce_room.sql.

-- Announces at the commit that the limits of a group have room, because a lease ends; see belfry.announce_ready.
CREATE FUNCTION belfry.announce_room(p_group bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) IN ('off', 'false', 'no', '0')
       OR pg_notification_queue_usage() >= 0.97 THEN -- a full queue would fail the transaction
        RETURN;
    END IF;
    PERFORM pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000000;r=%s/-1@0', p_group));
END $$;

-- From sql/functions/limit/audit_breaker.sql.

-- Writes a row of the audit for a breaker that opened or closed by itself. The events come from the audit.
CREATE FUNCTION belfry.audit_breaker(p_group bigint, p_action text, p_parameters json) RETURNS void LANGUAGE sql AS $$
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, consumer_group, parameters, counts, result)
    SELECT belfry.uuid_v7(), 'belfry', 'breaker', gen_random_uuid()::text, p_action, q.name, g.name, p_parameters, '{"changed":1}', 'ok'
      FROM belfry.consumer_group g
      JOIN belfry.queue q ON q.id = g.queue_id
     WHERE g.id = p_group
$$;

-- From sql/functions/limit/breaker_pause.sql.

-- Returns how long a breaker is open: p_pause, doubled for each opening after the first, and at most p_max.
CREATE FUNCTION belfry.breaker_pause(p_pause interval, p_max interval, p_openings integer) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT make_interval(secs => least(
        extract(epoch FROM coalesce(p_pause, interval '10 seconds')) * power(2::float8, least(greatest(p_openings, 1), 50) - 1),
        greatest(extract(epoch FROM coalesce(p_max, interval '10 minutes')), extract(epoch FROM coalesce(p_pause, interval '10 seconds'))))::float8)
$$;

-- From sql/functions/limit/breaker_until.sql.

-- Returns the instant until which the breaker of a group refuses claims, or NULL if it is closed or lets a lease pass now.
-- It locks nothing.
--
-- While a probe is live, it is the end of the probe's lease. If the lease has ended without an ack, the probe has
-- failed: the breaker is open for the next longer pause after that instant. This follows from the cursor, so it
-- needs no write. The claim of the next probe counts that opening.
CREATE FUNCTION belfry.breaker_until(p_group bigint, p_limits bigint, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    b record;
BEGIN
    SELECT k.open_until, k.openings, k.probe_lease, c.lease_until INTO b
      FROM belfry.breaker k
      LEFT JOIN LATERAL (
            SELECT CASE WHEN c.lease_id = k.probe_lease THEN c.lease_until END AS lease_until FROM belfry.cursor c
             WHERE c.partition_id = k.probe_partition AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1) AS c ON true
     WHERE k.group_id = p_group AND k.opened_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF b.lease_until > p_now THEN
        RETURN b.lease_until;
    ELSIF b.lease_until IS NOT NULL THEN
        b.open_until := greatest(b.open_until, b.lease_until + (
            SELECT belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, b.openings + 1) FROM belfry.group_limit l WHERE l.id = p_limits));
    END IF;
    RETURN CASE WHEN b.open_until > p_now THEN b.open_until END;
END $$;

-- From sql/functions/limit/bucket_parts.sql.

-- Returns the number of parts of a bucket. A tenant has one. A group has at most eight, with a burst of at least
-- 16 tokens each: with fewer tokens a claim would need several parts.
CREATE FUNCTION belfry.bucket_parts(p_tenant bigint, p_burst bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_tenant = 0 THEN greatest(least(p_burst / 16, 8), 1) ELSE 1 END
$$;

-- From sql/functions/limit/change_breaker.sql.

-- Opens the breaker of a group for p_pause (NULL: the pause of the breaker), or closes it. changed is NULL if the group does not
-- exist, and configured is false if the group has no breaker. until is the end of the pause.
CREATE FUNCTION belfry.change_breaker(
    p_queue text, p_group text, p_open boolean, p_pause interval, p_reason text,
    OUT changed boolean, OUT configured boolean, OUT until timestamptz, OUT group_id bigint
) LANGUAGE plpgsql SET synchronous_commit = on AS $$
DECLARE
    v_limits bigint;
    v_openings integer;
    v_now timestamptz := clock_timestamp();
BEGIN
    SELECT g.id, g.limits_id, belfry.has_breaker(g.limits_id) INTO change_breaker.group_id, v_limits, configured
      FROM belfry.consumer_group g
      JOIN belfry.queue q ON q.id = g.queue_id
     WHERE q.name = p_queue AND q.deleted_at IS NULL AND g.name = p_group;
    IF NOT FOUND OR NOT configured THEN
        RETURN;
    END IF;
    -- An operator waits for the lock, because the change must not be lost.
    SELECT CASE WHEN b.opened_at IS NOT NULL THEN b.openings END INTO v_openings
      FROM belfry.breaker b WHERE b.group_id = change_breaker.group_id FOR NO KEY UPDATE;
    IF p_open THEN
        until := v_now + coalesce(p_pause, (
            SELECT belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, 1) FROM belfry.group_limit l WHERE l.id = v_limits));
        IF NOT belfry.set_breaker(change_breaker.group_id, v_now, until, coalesce(v_openings, 1), false, 'operator',
                                  coalesce(p_reason, 'an operator opened the breaker'))
        THEN -- another session has created the row and has not committed yet
            RAISE EXCEPTION 'another session opens the breaker at this moment' USING ERRCODE = 'lock_not_available', HINT = 'Repeat the call.';
        END IF;
        SELECT b.open_until INTO until FROM belfry.breaker b WHERE b.group_id = change_breaker.group_id;
        changed := true;
    ELSE
        changed := belfry.reset_breaker(change_breaker.group_id);
    END IF;
END $$;
REVOKE ALL ON FUNCTION belfry.change_breaker(text, text, boolean, interval, text) FROM PUBLIC;

-- From sql/functions/limit/change_breaker_in_session.sql.

-- Runs belfry.open_breaker and belfry.close_breaker: changes a breaker in a SQL session, writes a row of the audit, and
-- wakes waiting requests.
CREATE FUNCTION belfry.change_breaker_in_session(p_queue text, p_group text, p_open boolean, p_pause interval, p_reason text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
    v record;
BEGIN
    IF p_pause <= interval '0' OR p_pause > interval '24 hours' THEN
        RAISE EXCEPTION 'the pause is %', p_pause USING ERRCODE = 'invalid_parameter_value', HINT = 'Give more than 0 and at most 24 hours.';
    END IF;
    v := belfry.change_breaker(p_queue, p_group, p_open, p_pause, p_reason);
    IF v.group_id IS NULL THEN
        RAISE EXCEPTION 'queue % or its consumer group % does not exist', quote_nullable(p_queue), quote_nullable(p_group)
            USING ERRCODE = 'undefined_object';
    ELSIF NOT v.configured THEN
        RAISE EXCEPTION 'consumer group % of queue % has no breaker', quote_nullable(p_group), quote_nullable(p_queue)
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Set the limit breaker of the group, or use belfry.pause.';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, consumer_group, parameters, counts, result)
    VALUES (belfry.uuid_v7(), belfry.calling_role(), 'sql', gen_random_uuid()::text,
            CASE WHEN p_open THEN 'breaker.open' ELSE 'breaker.close' END, p_queue, p_group,
            CASE WHEN p_open THEN json_build_object('by', 'operator', 'reason', p_reason, 'until', v.until) ELSE '{"by":"operator"}' END,
            json_build_object('changed', v.changed::integer), 'ok');
    IF NOT p_open AND pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
        PERFORM pg_notify('belfry', '1;i=00000000-0000-0000-0000-000000000000;all');
    END IF;
    RETURN v.changed;
END $$;
REVOKE ALL ON FUNCTION belfry.change_breaker_in_session(text, text, boolean, interval, text) FROM PUBLIC;

-- From sql/functions/limit/check_limits.sql.

-- Fails with 40001 if the group or its limits have changed since the snapshot of this transaction. Only a REPEATABLE READ or
-- SERIALIZABLE transaction has such a snapshot. The rollback of the subtransaction releases the locks.
CREATE FUNCTION belfry.check_limits(p_group bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM FROM belfry.consumer_group g WHERE g.id = p_group FOR SHARE SKIP LOCKED;
        PERFORM FROM belfry.group_limit l
          WHERE l.id = (SELECT g.limits_id FROM belfry.consumer_group g WHERE g.id = p_group)
            FOR SHARE SKIP LOCKED;
        RAISE EXCEPTION 'the check is done' USING ERRCODE = 'BF012';
    EXCEPTION WHEN SQLSTATE 'BF012' THEN
        NULL;
    END;
END $$;

-- From sql/functions/limit/close_breaker.sql.

-- Closes the breaker of a group and forgets its counted failures. The commit wakes waiting pops. Returns false if
-- the breaker is not open.
CREATE FUNCTION belfry.close_breaker(queue text, consumer_group text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_breaker_in_session($1, $2, false, NULL, NULL)
$$;
REVOKE ALL ON FUNCTION belfry.close_breaker(text, text) FROM PUBLIC;

-- From sql/functions/limit/count_outcomes.sql.

-- Counts outcomes for the breakers of their groups, and opens or closes the breakers. Returns the groups whose breaker changed
-- or whose probe ended: their waiting requests must ask again after the commit. Groups without a breaker are ignored.
--
--   1. While a breaker is open, only its probe counts. A completed message of the probe closes the breaker. If
--      no message of the call is completed, a failure opens it again, with a longer pause.
--   2. While it is closed, belfry.count_part counts, and a failure is judged: the breaker opens after
--      breaker_failures failures in a row, or if the share of failures in the last breaker_window is
--      breaker_share, with at least breaker_minimum outcomes.
--   3. A consumer that asks for a pause opens the breaker in both cases.
--
-- Several outcomes of one call count in the order of p_outcomes. So a failure that comes before a completed message of the same
-- call is not in the run.
--
-- The call waits for no other session for more than 50 ms. Transactions that count at the same time do not see each other's
-- failures; the next failure sees them.
CREATE FUNCTION belfry.count_outcomes(p_outcomes belfry.outcome[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    l record;
    o belfry.outcome;
    b belfry.breaker;
    v_at timestamptz := clock_timestamp();
    v_opened_at timestamptz;
    v_changed boolean;
    v_probe boolean; -- an outcome is of the probe
    v_completed bigint;
    v_failed bigint;
    v_run bigint;
    v_pause bigint;
    v_error text;
    v_judged record;
BEGIN
    FOR l IN
        SELECT g.group_id, c.*
          FROM (SELECT DISTINCT u.group_id, u.limits_id FROM unnest(p_outcomes) AS u) AS g
          JOIN belfry.group_limit c ON c.id = g.limits_id
         WHERE belfry.has_breaker(g.limits_id)
         ORDER BY g.group_id
    LOOP
        SELECT k.* INTO b FROM belfry.breaker k WHERE k.group_id = l.group_id AND k.opened_at IS NOT NULL;
        v_changed := false;
        v_probe := false;
        v_opened_at := v_at;
        v_completed := 0;
        v_failed := 0;
        v_run := 0;
        v_pause := NULL;
        v_error := NULL;
        FOREACH o IN ARRAY p_outcomes LOOP
            CONTINUE WHEN o.group_id <> l.group_id;
            IF b.opened_at IS NOT NULL AND o.lease_id = b.probe_lease AND o.partition_id = b.probe_partition THEN
                v_changed := true;
                v_probe := true;
                IF o.completed > 0 THEN
                    IF NOT belfry.lock_breaker(l.group_id) THEN
                        CONTINUE;
                    END IF;
                    PERFORM belfry.reset_breaker(l.group_id);
                    PERFORM belfry.audit_breaker(l.group_id, 'breaker.close', '{"by":"probe"}');
                    b := NULL;
                ELSIF o.failed > 0 AND o.pause IS NULL THEN
                    v_opened_at := coalesce(o.ended_at, v_at);
                    PERFORM belfry.set_breaker(l.group_id, v_opened_at,
                        v_opened_at + belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, b.openings + 1), b.openings + 1, false, 'probe',
                        'the probe failed' || coalesce(': ' || left(o.error, 200), ''));
                END IF;
            END IF;
            v_pause := greatest(v_pause, o.pause);
            v_error := coalesce(o.error, v_error);
            v_opened_at := coalesce(o.ended_at, v_opened_at);
            v_completed := v_completed + o.completed;
            v_failed := v_failed + o.failed;
            v_run := CASE WHEN o.completed > 0 THEN o.run ELSE v_run + o.run END;
        END LOOP;
        IF v_pause IS NOT NULL THEN
            v_changed := belfry.set_breaker(l.group_id, v_at, v_at + v_pause * interval '1 millisecond',
                CASE WHEN b.opened_at IS NULL THEN 1 ELSE b.openings + v_probe::integer END, NOT v_probe, 'client',
                'a consumer asked for a pause' || coalesce(': ' || left(v_error, 200), '')) OR v_changed;
        ELSIF b.opened_at IS NULL AND (l.breaker_share IS NOT NULL OR l.breaker_failures IS NOT NULL)
            AND belfry.count_part(l.group_id, coalesce(l.breaker_window, interval '1 minute'), v_completed, v_failed, v_run, v_at,
                                  l.breaker_share IS NULL)
            AND v_failed > 0
        THEN
            v_judged := belfry.judge_count(l.group_id, coalesce(l.breaker_window, interval '1 minute'), v_at);
            IF v_judged.run >= l.breaker_failures
                OR v_judged.completed + v_judged.failed >= coalesce(l.breaker_minimum, 10)
                    AND v_judged.failed >= l.breaker_share * (v_judged.completed + v_judged.failed)
            THEN
                v_changed := belfry.set_breaker(l.group_id, v_opened_at, v_opened_at + belfry.breaker_pause(l.breaker_pause, l.breaker_pause_max, 1), 1, false,
                    CASE WHEN v_judged.run >= l.breaker_failures THEN 'failures' ELSE 'share' END,
                    CASE WHEN v_judged.run >= l.breaker_failures THEN v_judged.run || ' failures in a row'
                         ELSE round(v_judged.failed::numeric) || ' failures among ' || round((v_judged.completed + v_judged.failed)::numeric)
                              || ' outcomes in the last ' || coalesce(l.breaker_window, interval '1 minute') END
                        || coalesce(': ' || left(v_error, 200), '')) OR v_changed;
            END IF;
        END IF;
        IF v_changed THEN
            RETURN NEXT l.group_id;
        END IF;
    END LOOP;
END $$;

-- From sql/functions/limit/count_part.sql.

-- Adds outcomes to a row of belfry.breaker_count that no other session has locked. p_run is the number of failures after the last
-- completed message. Reports whether it counted: if all eight rows are locked, it does not wait, and the outcomes are not counted.
--
-- With p_only_runs, only failures in a row matter. Then completed messages write nothing while no row has a failure since the
-- latest success.
CREATE FUNCTION belfry.count_part(
    p_group bigint, p_window interval, p_completed bigint, p_failed bigint, p_run bigint, p_at timestamptz, p_only_runs boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    c_parts constant bigint := 8;
    v_number bigint := floor(extract(epoch FROM p_at) / extract(epoch FROM p_window));
    v_success timestamptz;
    v_last_failure timestamptz;
    v_part bigint;
    c record;
BEGIN
    IF p_completed = 0 AND p_failed = 0 THEN
        RETURN false;
    END IF;
    SELECT max(o.last_success), max(o.run_last) FILTER (WHERE o.run > 0) INTO v_success, v_last_failure
      FROM belfry.breaker_count o WHERE o.group_id = p_group;
    IF p_only_runs AND p_failed = 0 AND (v_last_failure >= v_success) IS NOT TRUE THEN
        RETURN false;
    END IF;
    FOR i IN 0 .. c_parts - 1 LOOP
        v_part := (pg_backend_pid() + i) % c_parts;
        SELECT o.ctid, o.* INTO c
          FROM belfry.breaker_count o
         WHERE o.group_id = p_group AND o.part = v_part
           FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            -- The failures before the latest success do not count any more.
            c.run := CASE WHEN p_completed > 0 OR c.run_began < v_success THEN 0 ELSE c.run END;
            UPDATE belfry.breaker_count o
               SET window_number = v_number,
                   before_completed = CASE c.window_number WHEN v_number THEN c.before_completed WHEN v_number - 1 THEN c.completed ELSE 0 END,
                   before_failed = CASE c.window_number WHEN v_number THEN c.before_failed WHEN v_number - 1 THEN c.failed ELSE 0 END,
                   completed = CASE WHEN c.window_number = v_number THEN c.completed ELSE 0 END + p_completed,
                   failed = CASE WHEN c.window_number = v_number THEN c.failed ELSE 0 END + p_failed,
                   run = c.run + p_run,
                   run_began = CASE WHEN c.run = 0 AND p_run > 0 THEN p_at ELSE c.run_began END,
                   run_last = CASE WHEN p_run > 0 THEN p_at ELSE c.run_last END,
                   last_success = CASE WHEN p_completed > 0 THEN p_at ELSE c.last_success END
             WHERE o.ctid = c.ctid;
            RETURN true;
        ELSIF NOT EXISTS (SELECT FROM belfry.breaker_count o WHERE o.group_id = p_group AND o.part = v_part)
            AND belfry.new_limit_row(4, p_group, 0, v_part)
        THEN
            INSERT INTO belfry.breaker_count (group_id, part, window_number, completed, failed, before_completed, before_failed,
                                              run, run_began, run_last, last_success)
            VALUES (p_group, v_part, v_number, p_completed, p_failed, 0, 0, p_run, p_at,
                    CASE WHEN p_run > 0 THEN p_at ELSE '-infinity' END, CASE WHEN p_completed > 0 THEN p_at ELSE '-infinity' END);
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;

-- From sql/functions/limit/counts_leases.sql.

-- Reports whether the end of a lease of a group gives room: the limits count leases, or the breaker waits for its probe. It is not
-- a function in SQL, because Postgres plans those at each call.
CREATE FUNCTION belfry.counts_leases(p_limits bigint, p_group bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM belfry.group_limit l WHERE l.id = p_limits AND (l.concurrency IS NOT NULL OR l.tenant_concurrency IS NOT NULL))
        OR EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = p_group AND b.probe_lease IS NOT NULL);
END $$;

-- From sql/functions/limit/duration_text.sql.

-- Returns a duration as Go writes it, without units that are 0: 1m30s, 250ms. It has whole microseconds.
CREATE FUNCTION belfry.duration_text(p interval) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN t.us < 1000000 THEN trim_scale(t.us / 1000) || 'ms'
                ELSE coalesce(nullif(div(t.us, 3600000000), 0) || 'h', '') || coalesce(nullif(div(t.us, 60000000) % 60, 0) || 'm', '')
                     || coalesce(nullif(trim_scale(t.us % 60000000 / 1000000), 0) || 's', '') END
      FROM (SELECT (extract(epoch FROM p) * 1000000)::numeric AS us) AS t
$$;

-- From sql/functions/limit/empty_buckets.sql.

-- Empties the buckets of a group whose limits change from the row p_was to the row p_is, if the rate is another one. So a change of
-- the rate allows no burst. A group that never took tokens has no bucket, and begins with full buckets. Buckets stay without a rate,
-- so that a later rate finds them. It waits for claims that have locked a bucket.
CREATE FUNCTION belfry.empty_buckets(p_group bigint, p_was belfry.group_limit, p_is belfry.group_limit) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_parts bigint := belfry.bucket_parts(0, p_is.rate_burst);
    v_full interval; -- the time until a part is full
BEGIN
    IF p_is.tenant_rate_messages IS NOT NULL AND (p_was.tenant_rate_messages, p_was.tenant_rate_per, p_was.tenant_rate_burst)
       IS DISTINCT FROM (p_is.tenant_rate_messages, p_is.tenant_rate_per, p_is.tenant_rate_burst)
    THEN
        UPDATE belfry.limit_bucket b
           SET full_at = clock_timestamp() + p_is.tenant_rate_per * (p_is.tenant_rate_burst::float8 / p_is.tenant_rate_messages),
               taken_at = clock_timestamp()
         WHERE b.group_id = p_group AND b.tenant_id <> 0;
    END IF;
    IF p_is.rate_messages IS NULL OR (p_was.rate_messages, p_was.rate_per, p_was.rate_burst)
       IS NOT DISTINCT FROM (p_is.rate_messages, p_is.rate_per, p_is.rate_burst)
       OR NOT EXISTS (SELECT FROM belfry.limit_bucket b WHERE b.group_id = p_group AND b.tenant_id = 0)
    THEN
        RETURN;
    END IF;
    DELETE FROM belfry.limit_bucket b WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part >= v_parts;
    DELETE FROM belfry.limit_number n WHERE n.group_id = p_group AND n.tenant_id = 0 AND n.kind = 2 AND n.number >= v_parts;
    FOR i IN 0 .. v_parts - 1 LOOP
        v_full := p_is.rate_per * ((p_is.rate_burst / v_parts + (i < p_is.rate_burst % v_parts)::integer) * v_parts::float8 / p_is.rate_messages);
        IF NOT EXISTS (SELECT FROM belfry.limit_bucket b WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part = i)
            AND belfry.new_limit_row(2, p_group, 0, i, true)
        THEN
            INSERT INTO belfry.limit_bucket (group_id, tenant_id, part, full_at, taken_at)
            VALUES (p_group, 0, i, clock_timestamp() + v_full, clock_timestamp());
        ELSE
            UPDATE belfry.limit_bucket b SET full_at = clock_timestamp() + v_full, taken_at = clock_timestamp()
             WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part = i;
        END IF;
    END LOOP;
END $$;

-- From sql/functions/limit/has_breaker.sql.

-- Reports whether a row of belfry.group_limit has a breaker. A breaker without breaker_failures and breaker_share opens only
-- for a consumer that asks for a pause, and for an operator.
CREATE FUNCTION belfry.has_breaker(p_limits bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT num_nonnulls(l.breaker_failures, l.breaker_share, l.breaker_window, l.breaker_minimum, l.breaker_pause, l.breaker_pause_max) > 0
          FROM belfry.group_limit l WHERE l.id = p_limits), false)
$$;

-- From sql/functions/limit/judge_count.sql.

-- Returns the counted outcomes of a group: the failures in a row, and the completed and failed messages of the last window.
--
-- completed and failed are estimates: the outcomes of the current window, and the part of the window before that the last
-- p_window covers. If transactions count at the same time, the run may be too small, and never too large: a
-- row whose run began before the latest success and ended after it counts as one failure.
CREATE FUNCTION belfry.judge_count(p_group bigint, p_window interval, p_now timestamptz, OUT run bigint, OUT completed float8, OUT failed float8)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(CASE WHEN c.run_began >= s.last THEN c.run WHEN c.run_last >= s.last THEN least(c.run, 1) ELSE 0 END), 0)::bigint,
           coalesce(sum(CASE c.window_number WHEN w.number THEN c.completed + c.before_completed * w.rest
                                             WHEN w.number - 1 THEN c.completed * w.rest ELSE 0 END), 0),
           coalesce(sum(CASE c.window_number WHEN w.number THEN c.failed + c.before_failed * w.rest
                                             WHEN w.number - 1 THEN c.failed * w.rest ELSE 0 END), 0)
      FROM belfry.breaker_count c
     CROSS JOIN (SELECT max(o.last_success) AS last FROM belfry.breaker_count o WHERE o.group_id = p_group) AS s
     CROSS JOIN (SELECT floor(x.n)::bigint AS number, 1 - (x.n - floor(x.n)) AS rest
                   FROM (SELECT (extract(epoch FROM p_now) / extract(epoch FROM p_window))::float8 AS n) AS x) AS w
     WHERE c.group_id = p_group
$$;

-- From sql/functions/limit/lease_is_over.sql.

-- Reports whether a lease that has ended by the clock was not extended meanwhile. If another session holds the
-- lock of the cursor, the lease may be live. The rollback of the subtransaction releases the lock.
CREATE FUNCTION belfry.lease_is_over(p_partition bigint, p_group bigint, p_lease uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_over boolean;
BEGIN
    BEGIN
        SELECT c.lease_id IS DISTINCT FROM p_lease OR c.lease_until <= clock_timestamp() INTO v_over
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition AND c.group_id = p_group
           FOR NO KEY UPDATE SKIP LOCKED;
        RAISE EXCEPTION 'the check is done' USING ERRCODE = 'BF012';
    EXCEPTION WHEN SQLSTATE 'BF012' THEN
        RETURN coalesce(v_over, false);
    END;
END $$;

-- From sql/functions/limit/limit_duration.sql.

-- Returns a duration of the JSON of limits, or NULL if the member is absent. Raises an error unless it is from p_least to 24 hours.
CREATE FUNCTION belfry.limit_duration(p_from jsonb, p_path text[], p_least interval) RETURNS interval LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v jsonb := nullif(p_from #> p_path, 'null');
    v_text text := v #>> '{}';
    v_value interval;
BEGIN
    IF v IS NULL THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(v) = 'string' AND v_text ~ '^([0-9]{1,8}(\.[0-9]{1,9})?(ms|h|m|s))+$' THEN
        SELECT make_interval(secs => sum(m[1]::float8 * CASE m[3] WHEN 'h' THEN 3600 WHEN 'm' THEN 60 WHEN 's' THEN 1 ELSE 0.001 END))
          INTO v_value
          FROM regexp_matches(v_text, '([0-9]+(\.[0-9]+)?)(ms|h|m|s)', 'g') AS m;
    END IF;
    IF v_value IS NULL OR v_value < p_least OR v_value > interval '24 hours' THEN
        RAISE EXCEPTION '% is %', array_to_string(p_path, '.'), left(v::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = format('Give a duration from %s to 24h, such as "500ms", "10s" or "1m30s".', belfry.duration_text(p_least));
    END IF;
    RETURN v_value;
END $$;

-- From sql/functions/limit/limit_group.sql.

-- Sets the limits of a consumer group in a queue, or removes them if limits is NULL. Without a consumer_group they are the default of
-- the queue, for the groups without limits of their own. Returns false if they were so already. The commit wakes waiting pops and SQL
-- consumers. docs/flow.md describes the limits.
CREATE FUNCTION belfry.limit_group(queue text, consumer_group text, limits json) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v record;
    v_id uuid := belfry.uuid_v7();
    v_group text := nullif($2, '');
BEGIN
    IF octet_length(v_group) > 255 OR v_group IN ('.', '..') THEN
        RAISE EXCEPTION 'the name of the consumer group is not valid' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A name has 1 to 255 bytes, and is not . or ..';
    END IF;
    v := belfry.set_limits($1, coalesce(v_group, ''), $3);
    IF v.queue_id IS NULL THEN
        RAISE EXCEPTION 'queue % does not exist', quote_nullable($1) USING ERRCODE = 'undefined_object',
            HINT = 'Create it with the first push, or with POST /api/v1/configure.';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, consumer_group, parameters, counts, result)
    VALUES (v_id, belfry.calling_role(), 'sql', gen_random_uuid()::text, CASE WHEN v.after IS NULL THEN 'limits.remove' ELSE 'limits.set' END, $1, v_group,
            CASE WHEN v.after IS NULL THEN '{}' ELSE json_build_object('limits', v.after) END, json_build_object('changed', v.changed::integer), 'ok');
    IF v.changed THEN
        INSERT INTO belfry.audit_undo (audit_id, kind, queue_id, before, after)
        VALUES (v_id, 'limits', v.queue_id, coalesce(v.before, 'null'), coalesce(v.after, 'null'));
    END IF;
    IF v.changed AND pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
        PERFORM pg_notify('belfry', '1;i=00000000-0000-0000-0000-000000000000;all');
    END IF;
    RETURN v.changed;
END $$;
REVOKE ALL ON FUNCTION belfry.limit_group(text, text, json) FROM PUBLIC;

-- From sql/functions/limit/limit_key.sql.

-- Returns the key of the advisory lock that guards the insert of a row of belfry.limit_slot (p_kind 1),
-- belfry.limit_bucket (2), belfry.breaker (3) or belfry.breaker_count (4).
CREATE FUNCTION belfry.limit_key(p_kind integer, p_group bigint, p_tenant bigint, p_number bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashint8extended($4, hashint8extended($3, hashint8extended($2, 1651860071 + $1)))
$$;

-- From sql/functions/limit/limit_members.sql.

-- Raises an error unless a value of the JSON of limits is an object with members of p_known, or is absent. p_path is the path of
-- the object, or {} for the whole JSON.
CREATE FUNCTION belfry.limit_members(p_from jsonb, p_path text[], p_known text[]) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v jsonb := CASE WHEN p_path = '{}' THEN p_from ELSE nullif(p_from #> p_path, 'null') END;
    v_of text := nullif(array_to_string(p_path, '.'), '');
    v_unknown text;
BEGIN
    IF jsonb_typeof(v) <> 'object' THEN
        RAISE EXCEPTION '% is %', coalesce(v_of, 'the JSON of the limits'), left(v::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give an object with the members ' || array_to_string(p_known, ', ') || '.';
    END IF;
    SELECT string_agg(quote_ident(left(k, 80)), ', ' ORDER BY k) INTO v_unknown
      FROM jsonb_object_keys(v) AS k WHERE jsonb_typeof(v) = 'object' AND k <> ALL (p_known);
    IF v_unknown IS NOT NULL THEN
        RAISE EXCEPTION 'unknown members%: %', coalesce(' of ' || v_of, ''), v_unknown USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ' || array_to_string(p_known, ', ') || '.';
    END IF;
END $$;

-- From sql/functions/limit/limit_number.sql.

-- Returns a whole number of the JSON of limits, or NULL if the member is absent. Raises an error unless it is from p_least to p_most.
CREATE FUNCTION belfry.limit_number(p_from jsonb, p_path text[], p_least bigint, p_most bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v jsonb := nullif(p_from #> p_path, 'null');
    v_number numeric;
BEGIN
    IF jsonb_typeof(v) = 'number' THEN
        v_number := v;
    END IF;
    IF v IS NOT NULL AND coalesce(v_number NOT BETWEEN p_least AND p_most OR v_number % 1 <> 0, true) THEN
        RAISE EXCEPTION '% is %', array_to_string(p_path, '.'), left(v::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = format('Give a whole number from %s to %s.', p_least, p_most);
    END IF;
    RETURN v_number;
END $$;

-- From sql/functions/limit/limited_until.sql.

-- Returns NULL if the limits of a group let a claim deliver something now, and otherwise the instant at which they do at the
-- latest. It reads only committed rows and locks nothing, so it is for waiting requests and for pages.
CREATE FUNCTION belfry.limited_until(p_group bigint, p_limits bigint) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    l belfry.group_limit;
    v_now timestamptz := statement_timestamp();
    v_next timestamptz;
BEGIN
    v_next := belfry.breaker_until(p_group, p_limits, v_now);
    IF v_next IS NOT NULL THEN
        RETURN v_next;
    END IF;
    SELECT o.* INTO l FROM belfry.group_limit o WHERE o.id = p_limits;
    IF l.concurrency IS NOT NULL THEN
        v_next := belfry.places_full_until(p_group, 0, l.concurrency, v_now);
    END IF;
    IF l.rate_messages IS NOT NULL THEN
        v_next := greatest(v_next, (
            SELECT CASE WHEN count(*) = max(p.parts) THEN nullif(greatest(min(
                       least(b.full_at, b.taken_at + make_interval(secs => t.burst * t.token)) - make_interval(secs => (t.burst - 1) * t.token)), v_now), v_now) END
              FROM (SELECT belfry.bucket_parts(0, l.rate_burst) AS parts) AS p
             CROSS JOIN LATERAL generate_series(0, p.parts - 1) AS n(part)
             CROSS JOIN LATERAL (
                    SELECT l.rate_burst / p.parts + (n.part < l.rate_burst % p.parts)::integer AS burst,
                           extract(epoch FROM l.rate_per) * p.parts / l.rate_messages AS token) AS t -- the seconds for one token
             CROSS JOIN LATERAL (
                    SELECT b.full_at, b.taken_at FROM belfry.limit_bucket b
                     WHERE b.group_id = p_group AND b.tenant_id = 0 AND b.part >= n.part AND b.part <= n.part
                     ORDER BY b.part DESC LIMIT 1) AS b));
    END IF;
    RETURN v_next;
END $$;

-- From sql/functions/limit/limits_json.sql.

-- Returns the limits in a row as the API shows them. A limit that is not set has no member.
CREATE FUNCTION belfry.limits_json(l belfry.group_limit) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'concurrency', l.concurrency,
        'rateLimit', CASE WHEN l.rate_messages IS NOT NULL THEN json_build_object(
            'messages', l.rate_messages, 'per', belfry.duration_text(l.rate_per), 'burst', l.rate_burst) END,
        'breaker', CASE WHEN l.breaker_pause IS NOT NULL THEN json_build_object(
            'failures', l.breaker_failures, 'share', l.breaker_share,
            'window', CASE WHEN l.breaker_share IS NOT NULL THEN belfry.duration_text(l.breaker_window) END,
            'minimum', CASE WHEN l.breaker_share IS NOT NULL THEN l.breaker_minimum END,
            'pause', belfry.duration_text(l.breaker_pause), 'pauseMax', belfry.duration_text(l.breaker_pause_max)) END,
        'onExhausted', nullif(l.on_exhausted, 'deadLetter')))
$$;

-- From sql/functions/limit/limits_of.sql.

-- Returns the row of belfry.group_limit that holds for a group, or NULL. A row of the group comes before that of the queue.
CREATE FUNCTION belfry.limits_of(p_queue bigint, p_group text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT l.id FROM belfry.group_limit l
     WHERE l.queue_id = p_queue AND l.group_name IN (p_group, '')
     ORDER BY l.group_name DESC LIMIT 1
$$;

-- From sql/functions/limit/live_leases.sql.

-- Returns the number of live leases that count for the concurrency of a group, or of one of its tenants.
CREATE FUNCTION belfry.live_leases(p_group bigint, p_tenant bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*)
      FROM belfry.limit_slot s
     CROSS JOIN LATERAL (
            SELECT c.lease_id, c.lease_until FROM belfry.cursor c
             WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
             ORDER BY c.group_id DESC LIMIT 1) AS c
     WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND c.lease_id = s.lease_id AND c.lease_until > statement_timestamp()
$$;

-- From sql/functions/limit/lock_breaker.sql.

-- Locks the breaker of a group and reports whether it has the lock. It waits up to 50 ms for another session, so it
-- cannot be part of a deadlock. It returns false too if the group has no row.
CREATE FUNCTION belfry.lock_breaker(p_group bigint) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
BEGIN
    PERFORM FROM belfry.breaker b WHERE b.group_id = p_group FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    ELSIF NOT EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = p_group) THEN
        RETURN false;
    END IF;
    PERFORM FROM belfry.breaker b WHERE b.group_id = p_group FOR NO KEY UPDATE;
    RETURN FOUND;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- From sql/functions/limit/new_limit_row.sql.

-- Reports whether the caller may insert the row with this number into belfry.limit_slot (p_kind 1), belfry.limit_bucket (2),
-- belfry.breaker (3) or belfry.breaker_count (4).
-- It returns false if another transaction inserts the row now, or has inserted it. It never waits: the advisory lock
-- comes before the unique index. With p_wait it waits for a transaction that inserts the row now. If the row exists, and
-- the snapshot of a REPEATABLE READ transaction is older, it fails with 40001.
CREATE FUNCTION belfry.new_limit_row(
    p_kind integer, p_group bigint, p_tenant bigint, p_number bigint, p_wait boolean DEFAULT false
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_key bigint := belfry.limit_key(p_kind, p_group, p_tenant, p_number);
BEGIN
    IF p_wait THEN
        PERFORM pg_advisory_xact_lock(v_key);
    ELSIF NOT pg_try_advisory_xact_lock(v_key) THEN
        RETURN false;
    END IF;
    INSERT INTO belfry.limit_number (group_id, tenant_id, kind, number) VALUES (p_group, p_tenant, p_kind, p_number)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- From sql/functions/limit/occupy_slot.sql.

-- Writes a lease into the row p_slot of belfry.limit_slot. Returns false if the row is not free, or if another transaction has
-- locked it. belfry.take_slot has the proof, and calls this function.
--
--   p_place        the row as the caller has read it, NULL: there is none. It has the lease p_old_lease of p_old_partition.
--   p_lease_until  the end of that lease, which is not after the clock of the caller. NULL: the lease is over.
CREATE FUNCTION belfry.occupy_slot(
    p_group bigint, p_tenant bigint, p_slot bigint, p_partition bigint, p_lease uuid,
    p_place tid, p_old_partition bigint, p_old_lease uuid, p_lease_until timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF p_place IS NULL THEN
        IF NOT belfry.new_limit_row(1, p_group, p_tenant, p_slot) THEN
            RETURN false;
        END IF;
        INSERT INTO belfry.limit_slot (group_id, tenant_id, slot, partition_id, lease_id)
        VALUES (p_group, p_tenant, p_slot, p_partition, p_lease);
        RETURN true;
    END IF;
    -- A row that has changed since the read has another lease, and does not match.
    IF p_lease_until IS NOT NULL THEN
        PERFORM FROM belfry.limit_slot s WHERE s.ctid = p_place AND s.lease_id = p_old_lease FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND OR NOT belfry.lease_is_over(p_old_partition, p_group, p_old_lease) THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE belfry.limit_slot s SET partition_id = p_partition, lease_id = p_lease
     WHERE s.ctid = (SELECT o.ctid FROM belfry.limit_slot o WHERE o.ctid = p_place AND o.lease_id = p_old_lease FOR NO KEY UPDATE SKIP LOCKED);
    RETURN FOUND;
END $$;

-- From sql/functions/limit/on_exhausted.sql.

-- Returns what happens to a message of a group that has no retry left: 'deadLetter', 'block' or 'skip'.
CREATE FUNCTION belfry.on_exhausted(p_group bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT l.on_exhausted
                       FROM belfry.consumer_group g
                       JOIN belfry.group_limit l ON l.id = g.limits_id
                      WHERE g.id = p_group), 'deadLetter')
$$;

-- From sql/functions/limit/open_breaker.sql.

-- Opens the breaker of a group: no pop of the group returns messages for the time pause (NULL: the pause of the breaker). Then one
-- lease passes, and its completed ack closes the breaker. Acks continue. The group needs a breaker in its limits. Returns true.
CREATE FUNCTION belfry.open_breaker(queue text, consumer_group text, pause interval DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_breaker_in_session($1, $2, true, $3, $4)
$$;
REVOKE ALL ON FUNCTION belfry.open_breaker(text, text, interval, text) FROM PUBLIC;

-- From sql/functions/limit/pass_breaker.sql.

-- Returns NULL if the breaker of a group lets the lease of the caller pass, and otherwise the instant at which a
-- claim may ask again. belfry.admit calls it under the lock of the cursor of p_partition. It never waits for another session.
--
-- A half-open breaker lets one lease pass, for these reasons:
--
--   1. The claim writes its lease into the row, and holds the lock of the row from before its check until its commit. A
--      claim that finds the row locked, or changed, is refused.
--   2. The next claim finds that lease in the cursor, and is refused while the lease is live. If the lease has
--      ended by the clock, the claim checks it under the lock of the cursor; see belfry.lease_is_over.
--   3. If the cursor has another lease or none, the probe is over without a result, for example because its answer
--      did not reach the consumer. Then the next lease passes.
--
-- A delivery with autoAck (p_lease NULL) has no result that the breaker could wait for. It counts as completed, as it
-- does for the group. So it closes a half-open breaker. Otherwise a group that only uses autoAck would stay refused for ever.
CREATE FUNCTION belfry.pass_breaker(p_group bigint, p_limits bigint, p_partition bigint, p_lease uuid, p_now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    b belfry.breaker;
    v_until timestamptz;
    v_lost boolean;
BEGIN
    SELECT k.* INTO b FROM belfry.breaker k WHERE k.group_id = p_group AND k.opened_at IS NOT NULL;
    IF NOT FOUND OR b.probe_partition = p_partition AND b.probe_lease = p_lease THEN
        RETURN NULL;
    END IF;
    v_until := belfry.breaker_until(p_group, p_limits, p_now);
    IF v_until IS NOT NULL THEN
        RETURN v_until;
    END IF;
    PERFORM FROM belfry.breaker k
      WHERE k.group_id = p_group AND k.opened_at = b.opened_at AND k.open_until = b.open_until
        AND k.probe_lease IS NOT DISTINCT FROM b.probe_lease AND k.probe_partition IS NOT DISTINCT FROM b.probe_partition
        FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF NOT EXISTS (SELECT FROM belfry.breaker k WHERE k.group_id = p_group AND k.opened_at IS NOT NULL) THEN
            RETURN NULL; -- it has just been closed
        END IF;
        -- Another claim has just taken the row. If it is rolled back, nobody announces that.
        RETURN least(belfry.breaker_until(p_group, p_limits, p_now), p_now + interval '1 second');
    END IF;
    IF b.probe_lease IS NOT NULL THEN
        SELECT c.lease_id = b.probe_lease INTO v_lost FROM belfry.cursor c WHERE c.partition_id = b.probe_partition AND c.group_id = p_group;
        IF v_lost AND NOT belfry.lease_is_over(b.probe_partition, p_group, b.probe_lease) THEN
            RETURN p_now + interval '1 second';
        END IF;
    END IF;
    IF p_lease IS NULL THEN
        PERFORM belfry.reset_breaker(p_group);
        PERFORM belfry.audit_breaker(p_group, 'breaker.close', '{"by":"autoAck"}');
    ELSE
        UPDATE belfry.breaker k
           SET probe_partition = p_partition, probe_lease = p_lease, openings = k.openings + coalesce(v_lost, false)::integer
         WHERE k.group_id = p_group;
        PERFORM belfry.audit_breaker(p_group, 'breaker.probe', '{}');
    END IF;
    RETURN NULL;
END $$;

-- From sql/functions/limit/places_full_until.sql.

-- Returns NULL if a lease of a group has a free place, and otherwise an instant at which a place is free at the latest. It reads
-- only committed rows and locks nothing. It searches as belfry.take_slot does, so it reads few rows unless nearly all leases are live.
CREATE FUNCTION belfry.places_full_until(p_group bigint, p_tenant bigint, p_limit bigint, p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_live bigint;
    v_next timestamptz;
    v_begin bigint := CASE WHEN p_limit > 16 THEN floor(random() * p_limit)::bigint ELSE 0 END;
    k record;
BEGIN
    IF EXISTS (SELECT FROM belfry.limit_slot s WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot > p_limit) THEN
        SELECT count(*), min(c.lease_until) INTO v_live, v_next
          FROM belfry.limit_slot s
         CROSS JOIN LATERAL (
                SELECT c.lease_id, c.lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c
         WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND c.lease_id = s.lease_id AND c.lease_until > p_now;
        RETURN CASE WHEN v_live >= p_limit THEN v_next END;
    END IF;
    FOR k IN
        SELECT CASE WHEN c.lease_id = s.lease_id AND c.lease_until > p_now THEN c.lease_until END AS lease_until
          FROM (SELECT generate_series(0, p_limit - 1) AS i) AS i -- makes the numbers one by one, unlike a function in FROM
         CROSS JOIN LATERAL (SELECT (v_begin + i.i) % p_limit + 1 AS slot) AS n
          LEFT JOIN LATERAL (
                SELECT s.partition_id, s.lease_id FROM belfry.limit_slot s
                 WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot >= n.slot AND s.slot <= n.slot
                 ORDER BY s.slot DESC LIMIT 1) AS s ON true
          LEFT JOIN LATERAL (
                SELECT c.lease_id, c.lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true
    LOOP
        IF k.lease_until IS NULL THEN
            RETURN NULL;
        END IF;
        v_next := least(v_next, k.lease_until);
    END LOOP;
    RETURN v_next;
END $$;

-- From sql/functions/limit/read_limits.sql.

-- Reads the JSON of limits, and raises an error that says what to change. The columns that are no limits are NULL. docs/flow.md
-- describes the members and their defaults.
CREATE FUNCTION belfry.read_limits(p_limits json) RETURNS belfry.group_limit LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    f jsonb := p_limits;
    l belfry.group_limit;
BEGIN
    PERFORM belfry.limit_members(f, '{}', '{concurrency,rateLimit,breaker,onExhausted}');
    l.concurrency := belfry.limit_number(f, '{concurrency}', 1, 10000);
    SELECT r.* INTO l.rate_messages, l.rate_per, l.rate_burst FROM belfry.read_rate(f, 'rateLimit') AS r;
    l.fair := false;
    IF f ->> 'onExhausted' NOT IN ('deadLetter', 'block', 'skip') THEN
        RAISE EXCEPTION 'onExhausted is %', left((f -> 'onExhausted')::text, 80) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use "deadLetter", "block" or "skip".';
    END IF;
    l.on_exhausted := coalesce(f ->> 'onExhausted', 'deadLetter');
    IF nullif(f -> 'breaker', 'null') IS NULL THEN
        RETURN l;
    END IF;
    PERFORM belfry.limit_members(f, '{breaker}', '{failures,share,window,minimum,pause,pauseMax}');
    l.breaker_failures := belfry.limit_number(f, '{breaker,failures}', 1, 1000000);
    IF nullif(f #> '{breaker,share}', 'null') IS NOT NULL THEN
        IF jsonb_typeof(f #> '{breaker,share}') = 'number' THEN
            l.breaker_share := CASE WHEN (f #> '{breaker,share}')::numeric BETWEEN 0.000001 AND 1 THEN (f #> '{breaker,share}')::float8 END;
        END IF;
        IF l.breaker_share IS NULL THEN
            RAISE EXCEPTION 'breaker.share is %', left((f #> '{breaker,share}')::text, 80) USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give a number from 0.000001 to 1.';
        END IF;
    END IF;
    IF l.breaker_failures IS NULL AND l.breaker_share IS NULL THEN
        RAISE EXCEPTION 'breaker has neither failures nor share' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give failures, the failures in a row, or share, the part of failures in the window.';
    END IF;
    l.breaker_window := coalesce(belfry.limit_duration(f, '{breaker,window}', '1 second'), '1 minute');
    l.breaker_minimum := coalesce(belfry.limit_number(f, '{breaker,minimum}', 1, 1000000), 10);
    l.breaker_pause := coalesce(belfry.limit_duration(f, '{breaker,pause}', '1 second'), '10 seconds');
    l.breaker_pause_max := coalesce(belfry.limit_duration(f, '{breaker,pauseMax}', '1 second'), greatest('10 minutes', l.breaker_pause));
    IF l.breaker_pause_max < l.breaker_pause THEN
        RAISE EXCEPTION 'breaker.pauseMax is %, and breaker.pause is %', belfry.duration_text(l.breaker_pause_max), belfry.duration_text(l.breaker_pause)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a pauseMax that is not less than pause.';
    END IF;
    RETURN l;
END $$;

-- From sql/functions/limit/read_rate.sql.

-- Reads a rate from the JSON of limits. All results are NULL if the member is absent.
CREATE FUNCTION belfry.read_rate(p_from jsonb, p_member text, OUT messages bigint, OUT per interval, OUT burst bigint) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM belfry.limit_members(p_from, ARRAY[p_member], '{messages,per,burst}');
    messages := belfry.limit_number(p_from, ARRAY[p_member, 'messages'], 1, 1000000);
    per := belfry.limit_duration(p_from, ARRAY[p_member, 'per'], '1 millisecond');
    burst := coalesce(belfry.limit_number(p_from, ARRAY[p_member, 'burst'], 1, 1000000), messages);
    IF nullif(p_from -> p_member, 'null') IS NULL THEN
        RETURN;
    ELSIF messages IS NULL OR per IS NULL THEN
        RAISE EXCEPTION '% has no %', p_member, CASE WHEN messages IS NULL THEN 'messages' ELSE 'per' END USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give both, such as {"messages": 100, "per": "1s"}.';
    ELSIF messages > 1000000 * extract(epoch FROM per) THEN
        RAISE EXCEPTION '% has % messages in %', p_member, messages, belfry.duration_text(per) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The greatest rate is 1000000 messages a second. Give fewer messages or a longer time.';
    END IF;
END $$;

-- From sql/functions/limit/register_leases.sql.

-- Gives a place to each live lease of a group that has just got a concurrency, so that the limit counts them. Their rows are above
-- the limit; see belfry.usable_slots. A claim that began before the change is not counted. It runs in the transaction that sets the limit.
CREATE FUNCTION belfry.register_leases(p_group bigint, p_limit bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_slot bigint := greatest(p_limit, (SELECT max(s.slot) FROM belfry.limit_slot s WHERE s.group_id = p_group AND s.tenant_id = 0));
    k record;
BEGIN
    FOR k IN
        SELECT c.partition_id, c.lease_id
          FROM belfry.cursor c
         WHERE c.group_id = p_group AND c.lease_id IS NOT NULL AND c.lease_until > clock_timestamp()
           AND NOT EXISTS (SELECT FROM belfry.limit_slot s
                            WHERE s.group_id = p_group AND s.tenant_id = 0 AND s.partition_id = c.partition_id AND s.lease_id = c.lease_id)
         ORDER BY c.partition_id
    LOOP
        v_slot := v_slot + 1;
        IF belfry.new_limit_row(1, p_group, 0, v_slot) THEN
            INSERT INTO belfry.limit_slot (group_id, tenant_id, slot, partition_id, lease_id)
            VALUES (p_group, 0, v_slot, k.partition_id, k.lease_id);
        ELSE
            RAISE EXCEPTION 'place % of group % is taken', v_slot, p_group USING ERRCODE = 'lock_not_available';
        END IF;
    END LOOP;
END $$;

-- From sql/functions/limit/reset_breaker.sql.

-- Closes the breaker of a group and forgets the counted outcomes. Reports whether the breaker was open. The caller has
-- locked the row. A count that another session has locked is left: its outcomes belong to the new count.
CREATE FUNCTION belfry.reset_breaker(p_group bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_open boolean;
BEGIN
    UPDATE belfry.breaker b
       SET opened_at = NULL, open_until = NULL, openings = 0, reason = NULL, opened_by = NULL, probe_partition = NULL, probe_lease = NULL
     WHERE b.group_id = p_group AND b.opened_at IS NOT NULL;
    v_open := FOUND;
    UPDATE belfry.breaker_count c
       SET completed = 0, failed = 0, before_completed = 0, before_failed = 0, run = 0
     WHERE c.ctid = ANY (ARRAY(SELECT o.ctid FROM belfry.breaker_count o WHERE o.group_id = p_group FOR NO KEY UPDATE SKIP LOCKED));
    RETURN v_open;
END $$;

-- From sql/functions/limit/set_breaker.sql.

-- Opens the breaker of a group until p_until, and reports whether it did. An open breaker stays open until the later of both
-- instants. p_openings is the number of openings since the breaker was closed. p_probe: the live probe stays the probe. Otherwise
-- its result does not matter any more. Writes a row of the audit, unless an operator opens it: the request has its own row.
--
-- If another session has just locked or created the row, the call does nothing: that session changes the breaker.
CREATE FUNCTION belfry.set_breaker(
    p_group bigint, p_at timestamptz, p_until timestamptz, p_openings integer, p_probe boolean, p_by text, p_reason text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF belfry.lock_breaker(p_group) THEN
        UPDATE belfry.breaker b
           SET opened_at = coalesce(b.opened_at, p_at), open_until = greatest(p_until, CASE WHEN b.opened_at IS NOT NULL THEN b.open_until END), openings = p_openings,
               opened_by = p_by, reason = p_reason, probe_partition = CASE WHEN p_probe THEN b.probe_partition END,
               probe_lease = CASE WHEN p_probe THEN b.probe_lease END
         WHERE b.group_id = p_group;
    ELSIF EXISTS (SELECT FROM belfry.breaker b WHERE b.group_id = p_group) OR NOT belfry.new_limit_row(3, p_group, 0, 0) THEN
        RETURN false;
    ELSE
        INSERT INTO belfry.breaker (group_id, opened_at, open_until, openings, opened_by, reason)
        VALUES (p_group, p_at, p_until, p_openings, p_by, p_reason);
    END IF;
    IF p_by <> 'operator' THEN
        PERFORM belfry.audit_breaker(p_group, 'breaker.open', json_build_object('reason', p_reason, 'by', p_by, 'until', p_until));
    END IF;
    RETURN true;
END $$;

-- From sql/functions/limit/set_limits.sql.

-- Sets the limits of a group in a queue, or removes them if p_limits is NULL. With the group '' they are the default of the
-- queue. A group may have limits before its first pop. queue_id is NULL if the queue does not exist. before and after are the
-- limits in the row, NULL without a row. Limits that change nothing write nothing.
--
-- limits_id of a group is always the row in force, for these reasons:
--
--   1. This function and the registration of a group lock the queue, so each sees what the other has committed.
--   2. A registration with an older snapshot fails, because this function has updated the row of the queue.
--   3. This function refuses to run with an older snapshot.
CREATE FUNCTION belfry.set_limits(
    p_queue text, p_group text, p_limits json,
    OUT changed boolean, OUT queue_id bigint, OUT before json, OUT after json
) LANGUAGE plpgsql SET synchronous_commit = on SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    l belfry.group_limit := belfry.read_limits(p_limits);
    v_old belfry.group_limit; -- the row
    v_was belfry.group_limit; -- the row in force for the groups that change
    v_is belfry.group_limit;
    k record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'limits cannot change in a transaction with the isolation level %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'active_sql_transaction', HINT = 'Use a transaction with the isolation level READ COMMITTED.';
    END IF;
    UPDATE belfry.queue q SET name = q.name WHERE q.name = p_queue AND q.deleted_at IS NULL RETURNING q.id INTO queue_id;
    IF queue_id IS NULL THEN
        RETURN;
    END IF;
    SELECT o.* INTO v_old FROM belfry.group_limit o WHERE o.queue_id = set_limits.queue_id AND o.group_name = p_group;
    before := CASE WHEN v_old.id IS NOT NULL THEN belfry.limits_json(v_old) END;
    after := CASE WHEN p_limits IS NOT NULL THEN belfry.limits_json(l) END;
    IF p_group = '' AND after::text = '{}' THEN
        after := NULL;
    END IF;
    changed := before::text IS DISTINCT FROM after::text;
    IF NOT changed THEN
        RETURN;
    END IF;
    SELECT o.* INTO v_was FROM belfry.group_limit o WHERE o.id = belfry.limits_of(set_limits.queue_id, p_group);
    IF after IS NULL THEN
        DELETE FROM belfry.group_limit o WHERE o.id = v_old.id;
    ELSIF v_old.id IS NULL THEN
        INSERT INTO belfry.group_limit (
            queue_id, group_name,
            concurrency, rate_messages, rate_per, rate_burst, tenant_concurrency, tenant_rate_messages,
            tenant_rate_per, tenant_rate_burst, fair, breaker_failures, breaker_share, breaker_window, breaker_minimum,
            breaker_pause, breaker_pause_max, on_exhausted)
        VALUES (
            set_limits.queue_id, p_group,
            l.concurrency, l.rate_messages, l.rate_per, l.rate_burst, l.tenant_concurrency, l.tenant_rate_messages,
            l.tenant_rate_per, l.tenant_rate_burst, l.fair, l.breaker_failures, l.breaker_share, l.breaker_window,
            l.breaker_minimum, l.breaker_pause, l.breaker_pause_max, l.on_exhausted);
    ELSE
        UPDATE belfry.group_limit o SET (
            concurrency, rate_messages, rate_per, rate_burst, tenant_concurrency, tenant_rate_messages,
            tenant_rate_per, tenant_rate_burst, fair, breaker_failures, breaker_share, breaker_window, breaker_minimum,
            breaker_pause, breaker_pause_max, on_exhausted, changed_at) = (
            l.concurrency, l.rate_messages, l.rate_per, l.rate_burst, l.tenant_concurrency, l.tenant_rate_messages,
            l.tenant_rate_per, l.tenant_rate_burst, l.fair, l.breaker_failures, l.breaker_share, l.breaker_window,
            l.breaker_minimum, l.breaker_pause, l.breaker_pause_max, l.on_exhausted, clock_timestamp())
         WHERE o.id = v_old.id;
    END IF;
    SELECT o.* INTO v_is FROM belfry.group_limit o WHERE o.id = belfry.limits_of(set_limits.queue_id, p_group);
    FOR k IN
        SELECT g.id FROM belfry.consumer_group g
         WHERE g.queue_id = set_limits.queue_id
           AND CASE WHEN p_group <> '' THEN g.name = p_group ELSE NOT EXISTS (
                   SELECT FROM belfry.group_limit o WHERE o.queue_id = g.queue_id AND o.group_name = g.name) END
         ORDER BY g.id
    LOOP
        UPDATE belfry.consumer_group g SET limits_id = v_is.id WHERE g.id = k.id AND g.limits_id IS DISTINCT FROM v_is.id;
        PERFORM belfry.empty_buckets(k.id, v_was, v_is);
        IF v_was.concurrency IS NULL AND v_is.concurrency IS NOT NULL THEN
            PERFORM belfry.register_leases(k.id, v_is.concurrency);
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION belfry.set_limits(text, text, json) FROM PUBLIC;

-- From sql/functions/limit/spend.sql.

-- Takes the tokens that belfry.admit has reserved. Returns the instant of the next token if none is left.
CREATE FUNCTION belfry.spend(p_limits bigint, p_group bigint, p_messages bigint) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    l belfry.group_limit;
BEGIN
    SELECT o.* INTO l FROM belfry.group_limit o WHERE o.id = p_limits;
    IF l.rate_messages IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT t.next_at
              FROM belfry.take_tokens(p_group, 0, l.rate_messages, l.rate_per, l.rate_burst, p_messages, true) AS t);
END $$;

-- From sql/functions/limit/take_slot.sql.

-- Takes a place for a lease that the caller makes in the same transaction. Returns NULL if it took one, and
-- otherwise the instant at which a lease ends at the latest. It never waits for another session.
--
--   p_limit   the greatest number of live leases
--   p_lease   the lease of the cursor of p_partition, as soon as this transaction commits
--
-- No claim makes more than p_limit leases live, for these reasons:
--
--   1. A lease begins only in a transaction that has written its id into a row of belfry.limit_slot. The number
--      of the row is between 1 and the limit, and a number has one row; see belfry.new_limit_row.
--   2. A claim replaces the lease of a row only if the lease is over, and it holds the lock of the row from
--      before its check until its commit. A lease that is over stays over, so an old snapshot does no harm.
--   3. A lease also ends by the clock. An extension at that instant might make it live again. An extension
--      holds the lock of the cursor, and compares the end of the lease with a clock that it reads under the lock.
--      So the check takes the lock too. If another session holds it, the lease counts as live.
--   4. After the limit was lowered, leases in rows above the limit may be live. Then only the rows up to v_usable are
--      used: as many as the limit, less the live leases in rows above v_usable. A claim at the same time that has a
--      newer snapshot may use more rows. Its sum is right too, and it includes the rows of this claim.
--
--   5. A snapshot of REPEATABLE READ may be older than the limit, or than the rows. Then belfry.pop fails with 40001: in
--      belfry.check_limits, at the lock of a row that has changed, or at the insert of a row that exists.
--
-- With a high limit, it first tries one row of the first 32 and one of the first 1,024. So few rows exist while few leases are live.
-- Then it reads all rows, from row 1 on if the limit is low, and otherwise from a random row on. So it reads few rows unless
-- nearly all leases are live.
CREATE FUNCTION belfry.take_slot(p_group bigint, p_tenant bigint, p_limit bigint, p_partition bigint, p_lease uuid, p_now timestamptz)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_usable bigint := p_limit;
    v_begin bigint;
    v_next timestamptz := 'infinity';
    v_first bigint;
    v_slot bigint;
    slots CURSOR FOR
        SELECT r.slot, s.ctid, s.partition_id, s.lease_id, c.lease_until
          FROM (SELECT generate_series(0, v_usable - 1) AS i) AS i -- makes the numbers one by one, unlike a function in FROM
         CROSS JOIN LATERAL (SELECT (v_begin + i.i) % v_usable + 1 AS slot) AS r
          LEFT JOIN LATERAL (
                SELECT s.ctid, s.partition_id, s.lease_id FROM belfry.limit_slot s
                 WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot >= r.slot AND s.slot <= r.slot
                 ORDER BY s.slot DESC LIMIT 1) AS s ON true
          LEFT JOIN LATERAL (
                SELECT CASE WHEN c.lease_id = s.lease_id THEN c.lease_until END AS lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true;
    k record;
BEGIN
    FOREACH v_first IN ARRAY CASE WHEN p_limit > 1024 THEN '{32,1024}' WHEN p_limit > 32 THEN '{32}' ELSE '{}'::bigint[] END LOOP
        v_slot := floor(random() * v_first)::bigint + 1;
        SELECT s.ctid, s.partition_id, s.lease_id, c.lease_until,
               EXISTS (SELECT FROM belfry.limit_slot o WHERE o.group_id = p_group AND o.tenant_id = p_tenant AND o.slot > p_limit) AS lowered
          INTO k
          FROM (SELECT s.ctid, s.partition_id, s.lease_id FROM belfry.limit_slot s
                 WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot >= v_slot AND s.slot <= v_slot
                 ORDER BY s.slot DESC LIMIT 1) AS s
          LEFT JOIN LATERAL (
                SELECT CASE WHEN c.lease_id = s.lease_id THEN c.lease_until END AS lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true;
        EXIT WHEN k.lowered IS NOT false; -- the row is missing, or the limit was lowered
        CONTINUE WHEN k.lease_until > p_now;
        IF belfry.occupy_slot(p_group, p_tenant, v_slot, p_partition, p_lease, k.ctid, k.partition_id, k.lease_id, k.lease_until) THEN
            RETURN NULL;
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM belfry.limit_slot s WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot > p_limit) THEN
        SELECT u.usable, coalesce(u.next, 'infinity') INTO v_usable, v_next FROM belfry.usable_slots(p_group, p_tenant, p_limit, p_now) AS u;
        IF v_usable = 0 THEN
            RETURN v_next;
        END IF;
    END IF;
    v_begin := CASE WHEN v_slot <= v_usable THEN v_slot - 1 WHEN v_usable > 16 THEN floor(random() * v_usable)::bigint ELSE 0 END;
    OPEN slots;
    LOOP
        FETCH slots INTO k;
        EXIT WHEN NOT FOUND;
        IF k.lease_until > p_now THEN
            v_next := least(v_next, k.lease_until);
        ELSIF belfry.occupy_slot(p_group, p_tenant, k.slot, p_partition, p_lease, k.ctid, k.partition_id, k.lease_id, k.lease_until) THEN
            CLOSE slots;
            RETURN NULL;
        ELSE
            -- Another claim has just taken the row. If it is rolled back, nobody announces that.
            v_next := least(v_next, p_now + interval '1 second');
        END IF;
    END LOOP;
    CLOSE slots;
    RETURN v_next;
END $$;

-- From sql/functions/limit/take_tokens.sql.

-- Takes up to p_want tokens of a rate, one for each message. granted is the number of tokens, and next_at the
-- instant of the next token if none is left afterwards. If p_spend is false, the call takes nothing and only
-- reserves the tokens: this transaction can take them later.
--
-- The bucket has parts, each with its share of the rate and of the burst. A part that is full at full_at has
-- burst - (full_at - now) / interval tokens, where interval is the time for one token. This is the generic cell rate
-- algorithm (ITU-T I.371). So in every time t, all claims together get at most p_burst + t * p_messages / p_per.
-- A session begins with the part of its number and skips parts that another session has locked. So far from the limit, claims that
-- run at the same time do not wait for each other.
--
-- If it finds no token and another session has locked a part, it waits up to 50 ms for that part. So it cannot
-- be part of a deadlock, and a claim that is rolled back delays the others only a little.
CREATE FUNCTION belfry.take_tokens(
    p_group bigint, p_tenant bigint, p_messages bigint, p_per interval, p_burst bigint, p_want bigint, p_spend boolean,
    OUT granted bigint, OUT next_at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    v_parts bigint := belfry.bucket_parts(p_tenant, p_burst);
    v_microseconds float8 := extract(epoch FROM p_per) * 1e6 * v_parts / p_messages; -- for one token of a part
    v_begin bigint := pg_backend_pid() % v_parts;
    v_now timestamptz := clock_timestamp();
    v_part bigint;
    v_burst bigint; -- of the part
    v_full_at timestamptz;
    v_taken_at timestamptz;
    v_place tid;
    v_left bigint;
    v_n bigint;
    v_busy bigint; -- a part that another session has locked
    v_waited boolean := false;
    v_i bigint := 0;
BEGIN
    granted := 0;
    WHILE v_i < v_parts AND granted < p_want LOOP
        v_part := (v_begin + v_i) % v_parts;
        v_i := v_i + 1;
        v_burst := p_burst / v_parts + (v_part < p_burst % v_parts)::integer;
        IF v_waited THEN
            v_part := v_busy;
            v_i := v_parts;
            v_burst := p_burst / v_parts + (v_part < p_burst % v_parts)::integer;
            PERFORM belfry.wait_for_bucket(p_group, p_tenant, v_part);
            v_now := clock_timestamp();
        END IF;
        SELECT b.ctid, b.full_at, b.taken_at INTO v_place, v_full_at, v_taken_at
          FROM belfry.limit_bucket b
         WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part >= v_part AND b.part <= v_part
         ORDER BY b.part DESC LIMIT 1 -- reads the newest version first
           FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            PERFORM FROM belfry.limit_bucket b
              WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part >= v_part AND b.part <= v_part
              ORDER BY b.part DESC LIMIT 1;
            IF FOUND OR NOT belfry.new_limit_row(2, p_group, p_tenant, v_part)
            THEN
                v_busy := v_part;
            ELSE
                INSERT INTO belfry.limit_bucket (group_id, tenant_id, part, full_at, taken_at)
                VALUES (p_group, p_tenant, v_part, v_now, v_now)
                RETURNING ctid, full_at, taken_at INTO v_place, v_full_at, v_taken_at;
            END IF;
        END IF;
        IF v_place IS NOT NULL THEN
            -- taken_at: with the rate of now, the part was at most empty then. This matters after the rate was raised.
            v_full_at := least(v_full_at, v_taken_at + make_interval(secs => (ceil(v_burst * v_microseconds) + 1) / 1e6));
            v_left := v_burst - ceil(greatest(extract(epoch FROM v_full_at - v_now) * 1e6, 0) / v_microseconds - 1e-9)::bigint;
            v_n := greatest(least(v_left, p_want - granted), 0);
            IF v_n > 0 AND p_spend THEN
                v_full_at := greatest(v_full_at, v_now) + make_interval(secs => ceil(v_n * v_microseconds) / 1e6);
                UPDATE belfry.limit_bucket b SET full_at = v_full_at, taken_at = greatest(b.taken_at, v_now) WHERE b.ctid = v_place;
            END IF;
            granted := granted + v_n;
            IF v_left - v_n > 0 THEN
                next_at := v_now;
            ELSE
                next_at := least(next_at, greatest(v_full_at, v_now) - make_interval(secs => floor((v_burst - 1) * v_microseconds) / 1e6));
            END IF;
        END IF;
        IF granted = 0 AND v_i = v_parts AND v_busy IS NOT NULL AND NOT v_waited THEN
            v_waited := true;
            v_i := v_parts - 1;
        END IF;
    END LOOP;
    IF v_i < v_parts OR next_at <= v_now THEN
        next_at := NULL; -- a part may have tokens
    ELSIF v_busy IS NOT NULL THEN
        next_at := least(next_at, v_now + interval '50 milliseconds');
    END IF;
END $$;

-- From sql/functions/limit/tokens_left.sql.

-- Returns the number of tokens in the bucket of a group, or of one of its tenants. A part without a row is full.
CREATE FUNCTION belfry.tokens_left(p_group bigint, p_tenant bigint, p_messages bigint, p_per interval, p_burst bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (p_burst - coalesce(sum(least(u.burst, ceil(greatest(extract(epoch FROM b.full_at - statement_timestamp())::float8, 0)
               * p_messages / extract(epoch FROM p_per)::float8 / u.parts - 1e-9)::bigint)), 0))::bigint
      FROM belfry.limit_bucket b
     CROSS JOIN LATERAL (SELECT belfry.bucket_parts(p_tenant, p_burst) AS parts) AS t
     CROSS JOIN LATERAL (SELECT t.parts, p_burst / t.parts + (b.part < p_burst % t.parts)::integer AS burst) AS u
     WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part < t.parts
$$;

-- From sql/functions/limit/unblock.sql.

-- Decides about the message at which a partition is blocked for a consumer group (onExhausted 'block'), and writes a
-- row of the audit. action: 'retry' delivers the message at once, 'deadLetter' makes it a dead letter, 'skip' counts
-- it as done. Returns false if the partition is not blocked. Waits up to 5 seconds for a cursor that another session
-- has locked.
CREATE FUNCTION belfry.unblock(queue text, partition text, consumer_group text, action text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    v record;
BEGIN
    IF action IS NULL OR action NOT IN ('retry', 'deadLetter', 'skip') THEN
        RAISE EXCEPTION 'the action % is not known', quote_nullable(action) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''retry'', ''deadLetter'' or ''skip''.';
    END IF;
    v := belfry.unblock_partition(queue, partition, consumer_group, action, true);
    IF NOT v.known THEN
        RAISE EXCEPTION 'queue %, its partition % or its consumer group % does not exist, or the group has not read the partition',
            quote_nullable(queue), quote_nullable(partition), quote_nullable(consumer_group) USING ERRCODE = 'undefined_object';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, partition, consumer_group, parameters, counts, result)
    VALUES (belfry.uuid_v7(), belfry.calling_role(), 'sql', gen_random_uuid()::text, 'delivery.unblock', queue, partition, consumer_group,
            json_build_object('action', action, 'transactionId', v.transaction_id), json_build_object('changed', v.unblocked::integer),
            CASE WHEN v.unblocked THEN 'ok' ELSE 'conflict' END);
    IF v.unblocked THEN
        PERFORM belfry.announce_ready(v.group_id, v.partition_id);
    END IF;
    RETURN v.unblocked;
END $$;
REVOKE ALL ON FUNCTION belfry.unblock(text, text, text, text) FROM PUBLIC;

-- From sql/functions/limit/unblock_partition.sql.

-- Decides about the first message of a blocked cursor; see belfry.blocked. p_action: 'retry' delivers the message
-- at once, and its failures and deliveries count from 0. 'deadLetter' makes the message a dead letter with its
-- last error. 'skip' counts the message as done. The cursor then goes on.
--
-- known is false if the queue, the partition, or the cursor of the group does not exist. unblocked is false if the
-- cursor is not blocked. message_id and transaction_id are NULL if the message was deleted. Locks the cursor. A
-- wake must follow the commit. With p_in_session no wake can follow, so the cursor stays marked ready although it
-- may be empty.
CREATE FUNCTION belfry.unblock_partition(
    p_queue text, p_partition text, p_group text, p_action text, p_in_session boolean,
    OUT known boolean, OUT unblocked boolean, OUT partition_id bigint, OUT group_id bigint, OUT message_id uuid, OUT transaction_id text
) LANGUAGE plpgsql SET synchronous_commit = on AS $$
#variable_conflict use_column
DECLARE
    v_seq bigint;
    v_committed bigint;
    v_error text;
    c record;
BEGIN
    SELECT p.id, g.id INTO partition_id, group_id
      FROM belfry.queue q
      JOIN belfry.partition p ON p.queue_id = q.id AND p.name = p_partition AND NOT p.closed
      JOIN belfry.consumer_group g ON g.queue_id = q.id AND g.name = p_group
     WHERE q.name = p_queue AND q.deleted_at IS NULL;
    PERFORM k.group_id FROM belfry.cursor k
      WHERE k.partition_id = unblock_partition.partition_id AND k.group_id = unblock_partition.group_id
        FOR NO KEY UPDATE;
    known := FOUND;
    -- The snapshot of this statement is newer than the lock.
    SELECT k.committed, k.skip, k.attempts, k.failures, k.retry_at INTO c
      FROM belfry.cursor k
     WHERE k.partition_id = unblock_partition.partition_id AND k.group_id = unblock_partition.group_id;
    unblocked := coalesce(c.retry_at = belfry.blocked(), false);
    IF NOT unblocked THEN
        RETURN;
    END IF;
    v_committed := c.committed;
    SELECT m.seq, m.id, m.transaction_id INTO v_seq, message_id, transaction_id
      FROM belfry.message m
     WHERE m.partition_id = unblock_partition.partition_id AND m.seq > c.committed AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
     ORDER BY m.seq LIMIT 1;
    IF v_seq IS NOT NULL AND p_action <> 'retry' THEN
        IF p_action = 'deadLetter' THEN
            SELECT a.error INTO v_error
              FROM belfry.attempt a
             WHERE a.partition_id = unblock_partition.partition_id AND a.seq = v_seq AND a.group_id = unblock_partition.group_id
             ORDER BY a.nth DESC LIMIT 1;
            PERFORM belfry.park(partition_id, group_id, v_seq, coalesce(nullif(c.failures, 0), c.attempts), convert_to(v_error, 'UTF8'));
        END IF;
        v_committed := coalesce(belfry.passed(v_seq, c.skip), v_seq);
    END IF;
    UPDATE belfry.cursor k
       SET committed = v_committed, skip = belfry.skip_beyond(k.skip, v_committed), attempts = 0, failures = 0, retry_at = NULL,
           consumed = k.consumed + v_committed - k.committed,
           consumed_at = CASE WHEN v_committed > k.committed THEN clock_timestamp() ELSE k.consumed_at END,
           ready_at = CASE
               WHEN k.lease_until > clock_timestamp() THEN k.ready_at -- a lease of redriven messages
               ELSE coalesce(
                   belfry.ready_at(p.id, v_committed, p.last_seq, p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
                                   NULL, k.redrives, k.group_id),
                   CASE WHEN p_in_session THEN clock_timestamp() END) END
      FROM belfry.partition p
      JOIN belfry.queue q ON q.id = p.queue_id
     WHERE p.id = unblock_partition.partition_id AND k.partition_id = p.id AND k.group_id = unblock_partition.group_id;
END $$;
REVOKE ALL ON FUNCTION belfry.unblock_partition(text, text, text, text, boolean) FROM PUBLIC;

-- From sql/functions/limit/usable_slots.sql.

-- Returns how many rows of belfry.limit_slot a group may use while leases in rows above its limit are live, and
-- when one of these leases ends. It deletes rows above the limit whose lease is over, unless a claim has locked them.
-- belfry.take_slot has the proof.
CREATE FUNCTION belfry.usable_slots(
    p_group bigint, p_tenant bigint, p_limit bigint, p_now timestamptz, OUT usable bigint, OUT next timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    v_above bigint := 0; -- live leases in rows above usable
    k record;
BEGIN
    usable := NULL;
    FOR k IN
        SELECT s.ctid, s.slot, s.partition_id, s.lease_id, c.lease_until
          FROM belfry.limit_slot s
          LEFT JOIN LATERAL (
                SELECT CASE WHEN c.lease_id = s.lease_id THEN c.lease_until END AS lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true
         WHERE s.group_id = p_group AND s.tenant_id = p_tenant
         ORDER BY s.slot DESC
    LOOP
        EXIT WHEN k.slot <= p_limit AND k.slot + v_above <= p_limit;
        IF k.lease_until <= p_now AND belfry.lease_is_over(k.partition_id, p_group, k.lease_id) THEN
            k.lease_until := NULL;
        END IF;
        IF k.lease_until IS NULL AND k.slot > p_limit THEN
            DELETE FROM belfry.limit_slot s
             WHERE s.ctid = (SELECT o.ctid FROM belfry.limit_slot o WHERE o.ctid = k.ctid AND o.lease_id = k.lease_id FOR UPDATE SKIP LOCKED);
            IF FOUND THEN
                DELETE FROM belfry.limit_number n
                 WHERE n.group_id = p_group AND n.tenant_id = p_tenant AND n.kind = 1 AND n.number = k.slot;
                CONTINUE;
            END IF;
        END IF;
        IF k.lease_until IS NOT NULL OR k.slot > p_limit THEN
            v_above := v_above + 1;
            next := least(next, greatest(k.lease_until, p_now + interval '10 milliseconds'));
        END IF;
    END LOOP;
    usable := greatest(p_limit - v_above, 0);
END $$;

-- From sql/functions/limit/wait_for_bucket.sql.

-- Waits up to 50 ms until no other session has locked the part of a bucket.
CREATE FUNCTION belfry.wait_for_bucket(p_group bigint, p_tenant bigint, p_part bigint) RETURNS void LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
BEGIN
    PERFORM FROM belfry.limit_bucket b
      WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part >= p_part AND b.part <= p_part
      ORDER BY b.part DESC LIMIT 1 -- reads the newest version first
        FOR NO KEY UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;

-- From sql/functions/pause/change_pause.sql.

-- Pauses or resumes a queue, one partition of the queue (p_partition), or one of its groups (p_group).
-- changed is NULL if the target does not exist. p_reason is the reason for the pause, or NULL. ids are the ids of
-- the queue, group and partition. before is the state before the change, and after is the state after it.
--
-- Every claim reads the flags, and a pause writes no cursor. No message is stranded, for these reasons:
--
--   1. A pause of a queue or a group does not change ready_at. So a resume of a queue or a group needs no
--      wake, but all waiting requests must probe again after it.
--   2. In a paused partition, a claim and settle_drained set ready_at of a due cursor to NULL. Otherwise
--      every pop that names no partition would find that cursor first. A wake follows both.
--   3. A wake does nothing in a paused partition. So a wake must follow the commit of a resume of a
--      partition, as after a push. If the wake of step 2 still saw the pause, the wake of the resume
--      starts later and sees the NULL.
CREATE FUNCTION belfry.change_pause(
    p_queue text, p_partition text, p_group text, p_paused boolean, p_reason text,
    OUT changed boolean, OUT queue_id bigint, OUT group_id bigint, OUT partition_id bigint, OUT before json, OUT after json
) LANGUAGE plpgsql SET synchronous_commit = on AS $$
#variable_conflict use_column
DECLARE
    v_queue bigint;
    v_reason text := CASE WHEN p_paused THEN p_reason END;
    v_before text;
BEGIN
    SELECT q.id INTO v_queue FROM belfry.queue q WHERE q.name = p_queue AND q.deleted_at IS NULL;
    IF p_partition IS NOT NULL THEN
        SELECT p.paused <> p_paused, p.id, p.pause_reason INTO changed, partition_id, v_before
          FROM belfry.partition p WHERE p.queue_id = v_queue AND p.name = p_partition AND NOT p.closed FOR NO KEY UPDATE;
        UPDATE belfry.partition p SET paused = p_paused, pause_reason = v_reason WHERE p.id = change_pause.partition_id AND change_pause.changed;
    ELSIF p_group IS NOT NULL THEN
        SELECT g.paused <> p_paused, g.id, g.pause_reason INTO changed, group_id, v_before
          FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.name = p_group FOR NO KEY UPDATE;
        UPDATE belfry.consumer_group g SET paused = p_paused, pause_reason = v_reason WHERE g.id = change_pause.group_id AND change_pause.changed;
    ELSE
        SELECT q.paused <> p_paused, q.pause_reason INTO changed, v_before FROM belfry.queue q WHERE q.id = v_queue FOR NO KEY UPDATE;
        UPDATE belfry.queue q SET paused = p_paused, pause_reason = v_reason WHERE q.id = v_queue AND change_pause.changed;
    END IF;
    queue_id := v_queue;
    before := json_build_object('paused', NOT p_paused, 'reason', v_before);
    after := json_build_object('paused', p_paused, 'reason', v_reason);
END $$;
REVOKE ALL ON FUNCTION belfry.change_pause(text, text, text, boolean, text) FROM PUBLIC;

-- From sql/functions/pause/change_pause_in_session.sql.

-- Runs belfry.pause and belfry.resume: changes a pause in a SQL session and writes a row of the audit.
--
-- No wake can follow the commit of the session. So a resume of a partition locks all its cursors, and
-- makes them ready under the locks. Pushes to the partition wait until the commit. The resume waits up
-- to 5 seconds for each cursor that another session has locked.
CREATE FUNCTION belfry.change_pause_in_session(p_queue text, p_partition text, p_group text, p_paused boolean, p_reason text) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
    v record;
    v_id uuid := belfry.uuid_v7();
BEGIN
    IF p_partition IS NOT NULL AND p_group IS NOT NULL THEN
        RAISE EXCEPTION 'a partition and a consumer group are given' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give one of them, or none for the queue.';
    END IF;
    v := belfry.change_pause(p_queue, p_partition, p_group, p_paused, p_reason);
    IF v.changed IS NULL THEN
        RAISE EXCEPTION 'queue %, its partition % or its consumer group % does not exist', quote_nullable(p_queue), quote_nullable(p_partition),
            quote_nullable(p_group) USING ERRCODE = 'undefined_object';
    END IF;
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, partition, consumer_group, parameters, counts, result)
    VALUES (v_id, belfry.calling_role(), 'sql', gen_random_uuid()::text,
            CASE WHEN p_paused THEN 'delivery.pause' ELSE 'delivery.resume' END, p_queue, p_partition, p_group,
            CASE WHEN p_reason IS NULL THEN '{}' ELSE json_build_object('reason', p_reason) END,
            json_build_object('changed', v.changed::integer), 'ok');
    INSERT INTO belfry.audit_undo (audit_id, kind, queue_id, group_id, partition_id, before, after)
    SELECT v_id, 'pause', v.queue_id, v.group_id, v.partition_id, v.before, v.after WHERE v.changed;
    IF NOT p_paused THEN
        PERFORM FROM belfry.cursor c WHERE c.partition_id = v.partition_id ORDER BY c.group_id FOR NO KEY UPDATE;
        PERFORM FROM belfry.wake_partitions(ARRAY[v.partition_id]);
        IF pg_notification_queue_usage() < 0.97 THEN -- a full queue would fail the transaction
            PERFORM pg_notify('belfry', '1;i=00000000-0000-0000-0000-000000000000;all');
        END IF;
    END IF;
    RETURN v.changed;
END $$;
REVOKE ALL ON FUNCTION belfry.change_pause_in_session(text, text, text, boolean, text) FROM PUBLIC;

-- From sql/functions/pause/pause.sql.

-- Pauses a queue, one of its partitions, or one of its consumer groups. Pops then return nothing. Pushes
-- and acks continue. The pages and the API show the reason. Returns false if the target is paused already.
CREATE FUNCTION belfry.pause(queue text, partition text DEFAULT NULL, consumer_group text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_pause_in_session($1, $2, $3, true, $4)
$$;
REVOKE ALL ON FUNCTION belfry.pause(text, text, text, text) FROM PUBLIC;

-- From sql/functions/pause/resume.sql.

-- Ends a pause. The commit wakes waiting pops and SQL consumers. Returns false if the target is not
-- paused.
CREATE FUNCTION belfry.resume(queue text, partition text DEFAULT NULL, consumer_group text DEFAULT NULL) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT belfry.change_pause_in_session($1, $2, $3, false, NULL)
$$;
REVOKE ALL ON FUNCTION belfry.resume(text, text, text) FROM PUBLIC;

-- From sql/functions/push/append.sql.

-- Appends messages to partitions. The query store/append is the only caller.
--
-- By partition, distinct and ascending:
--   p_partitions, p_counts   The id, and the number of messages.
--   p_visible_until          The latest p_visible_at, or an empty array.
--   p_sealed, p_bounded      The ids of the partitions whose payloads are encrypted, and of those whose
--                            queue has a maxSize (NULL: not checked).
-- By message:
--   p_lanes, p_nths          The index in p_partitions, and the position in that partition, from 1.
--   p_ids, p_transactions, p_payloads
--   p_traces, p_subs, p_visible_at, p_encrypted, p_headers   May be empty.
-- p_check_duplicates: a transaction id may be stored already. The arrays have a transaction id at most
-- once for each partition.
--
-- Returns the index and the stored message id of each duplicate. Raises BF001 if the caller has outdated
-- facts: the partition is deleted or closed, or encryption or maxSize of the queue was switched.
--
-- Locks the partitions in id order until the commit. The holder of the locks assigns the next seqs. The
-- search for duplicates is a later statement, so its snapshot holds every stored message.
--
-- append is a function because a function keeps its plans: to start a plan of this size costs more than
-- to run it. It also replaces joins of messages with partitions by indexes of arrays.
CREATE FUNCTION belfry.append(
    p_partitions bigint[], p_counts bigint[], p_visible_until timestamptz[], p_sealed bigint[],
    p_lanes integer[], p_nths integer[], p_ids uuid[], p_transactions text[], p_payloads text[],
    p_traces uuid[], p_subs text[], p_visible_at timestamptz[], p_encrypted boolean[], p_check_duplicates boolean,
    p_bounded bigint[] DEFAULT NULL, p_headers text[] DEFAULT NULL
) RETURNS TABLE (ord bigint, stored_id uuid) LANGUAGE plpgsql AS $$
DECLARE
    v_ctids tid[];
    v_seqs bigint[];
    v_times timestamptz[];
    v_stored uuid[];
    v_counts bigint[] := p_counts;
    v_nths integer[] := p_nths;
BEGIN
    SELECT array_agg(held.ctid), array_agg(held.last_seq), array_agg(greatest(held.last_push_at, clock_timestamp()))
      INTO v_ctids, v_seqs, v_times
      FROM (SELECT k.id FROM unnest(p_partitions) AS k(id) ORDER BY k.id) AS k
     CROSS JOIN LATERAL (
            SELECT p.ctid, p.id, p.queue_id, p.closed, p.last_seq, p.last_push_at
              FROM belfry.partition p
             WHERE p.id >= k.id AND p.id <= k.id
             ORDER BY p.id DESC LIMIT 1
               FOR NO KEY UPDATE) AS held
     CROSS JOIN LATERAL (
            SELECT q.encryption_enabled, q.max_size FROM belfry.queue q
             -- coalesce: the planner must not use the partial indexes of live queues.
             WHERE q.id = held.queue_id AND coalesce(q.deleted_at, 'infinity') = 'infinity' OFFSET 0) AS q
     WHERE NOT held.closed
       AND q.encryption_enabled = (held.id = ANY (p_sealed))
       AND (p_bounded IS NULL OR (q.max_size > 0) = (held.id = ANY (p_bounded)));
    IF cardinality(v_seqs) IS DISTINCT FROM cardinality(p_partitions) THEN
        PERFORM belfry.raise_partition_gone();
    END IF;

    IF p_check_duplicates THEN
        SELECT array_agg(m.id ORDER BY i.ord), count(m.id) > 0
          INTO v_stored, p_check_duplicates
          FROM unnest(p_lanes, p_transactions) WITH ORDINALITY AS i(lane, transaction_id, ord)
          LEFT JOIN LATERAL (
                SELECT m.id FROM belfry.message m
                 WHERE m.partition_id = p_partitions[i.lane] AND m.transaction_id = i.transaction_id
                 LIMIT 1) AS m ON true;
    END IF;
    IF p_check_duplicates THEN
        -- Duplicates get no seq, and the other messages move up.
        RETURN QUERY
        SELECT s.ord, s.id FROM unnest(v_stored) WITH ORDINALITY AS s(id, ord) WHERE s.id IS NOT NULL;
        SELECT array_agg(CASE WHEN i.id IS NULL THEN i.nth END ORDER BY i.ord)
          INTO v_nths
          FROM (SELECT n.id, n.ord, count(*) FILTER (WHERE n.id IS NULL) OVER (PARTITION BY n.lane ORDER BY n.ord) AS nth
                  FROM unnest(p_lanes, v_stored) WITH ORDINALITY AS n(lane, id, ord)) AS i;
        SELECT array_agg(coalesce(k.n, 0) ORDER BY k.lane)
          INTO v_counts
          FROM (SELECT n.lane, max(n.nth) AS n FROM unnest(p_lanes, v_nths) AS n(lane, nth) GROUP BY n.lane) AS k;
    END IF;

    INSERT INTO belfry.message
           (partition_id, seq, created_at, visible_at, id, trace_id, encrypted, transaction_id, producer_sub, headers, payload)
    SELECT p_partitions[i.lane], v_seqs[i.lane] + i.nth, v_times[i.lane], i.visible_at, i.id, i.trace_id,
           coalesce(i.encrypted, false), i.transaction_id, i.producer_sub, i.headers::json, i.payload::json
      FROM unnest(p_lanes, v_nths, p_ids, p_transactions, p_payloads, p_traces, p_subs, p_visible_at, p_encrypted,
                  p_headers)
           AS i(lane, nth, id, transaction_id, payload, trace_id, producer_sub, visible_at, encrypted, headers)
     WHERE i.nth IS NOT NULL;

    UPDATE belfry.partition p
       SET last_seq = p.last_seq + k.n,
           last_push_at = k.at,
           visible_until = greatest(p.visible_until, k.visible_until)
      FROM unnest(v_ctids, v_counts, v_times, p_visible_until) AS k(place, n, at, visible_until)
     WHERE p.ctid = k.place AND k.n > 0;
END $$;

-- From sql/functions/push/open_partitions.sql.

-- Finds or creates queues and partitions by name, and returns one row for each pair. If the queue is
-- deleted meanwhile, its pairs have no rows, and the caller calls again.
--
-- Locks the queues with FOR SHARE before it creates partitions. join_group locks the queue with FOR NO
-- KEY UPDATE while it registers a group. So either this call or a later join_page creates the cursor of
-- a group in a partition. If the group starts in the future, the cursor gets its start_at.
--
-- p_tenants are the tenants of the partitions that the call creates; see open_tenants. A partition keeps its tenant.
CREATE FUNCTION belfry.open_partitions(
    p_queues text[], p_partitions text[], p_lease_time bigint, p_retry_limit bigint, p_retry_delay bigint DEFAULT 0,
    p_retry_backoff bigint DEFAULT 0, p_retry_delay_max bigint DEFAULT 0,
    p_tenants text[] DEFAULT NULL
) RETURNS TABLE (
    queue_name text, partition_name text, queue_id bigint, partition_id bigint, partition_uid uuid, sealed boolean
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_tenants bigint[];
BEGIN
    INSERT INTO belfry.queue (name, namespace, task, lease_time, retry_limit, retry_delay, retry_backoff, retry_delay_max)
    SELECT DISTINCT w.name, split_part(w.name, '.', 1), split_part(w.name, '.', 2), p_lease_time, p_retry_limit, p_retry_delay,
           p_retry_backoff, p_retry_delay_max
      FROM unnest(p_queues) AS w(name)
     WHERE (SELECT q.id FROM belfry.queue q WHERE q.name = w.name AND q.deleted_at IS NULL) IS NULL
     ORDER BY 1
    ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;

    IF EXISTS (
        SELECT 1 FROM unnest(p_queues, p_partitions) AS w(queue, partition)
         WHERE (SELECT p.id FROM belfry.partition p
                 WHERE p.queue_id = (SELECT q.id FROM belfry.queue q WHERE q.name = w.queue AND q.deleted_at IS NULL)
                   AND p.name = w.partition) IS NULL
    ) THEN
        PERFORM q.id FROM belfry.queue q
          WHERE q.name = ANY (p_queues) AND q.deleted_at IS NULL
          ORDER BY q.id FOR SHARE;

        IF p_tenants IS NOT NULL OR EXISTS (
            SELECT FROM belfry.queue q WHERE q.name = ANY (p_queues) AND q.deleted_at IS NULL AND q.tenant_delimiter <> '')
        THEN
            v_tenants := belfry.open_tenants(p_queues, p_partitions, p_tenants);
        END IF;

        WITH created AS (
            INSERT INTO belfry.partition (queue_id, name, tenant_id)
            SELECT DISTINCT ON (q.id, w.partition) q.id, w.partition, w.tenant_id
              FROM unnest(p_queues, p_partitions, v_tenants) AS w(queue, partition, tenant_id)
             CROSS JOIN LATERAL (
                    SELECT q.id FROM belfry.queue q WHERE q.name = w.queue AND q.deleted_at IS NULL OFFSET 0) AS q
             WHERE (SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = w.partition) IS NULL
             ORDER BY 1, 2
            ON CONFLICT (queue_id, name) DO NOTHING
            RETURNING id, queue_id, tenant_id
        )
        INSERT INTO belfry.cursor (partition_id, group_id, tenant_id, start_at)
        SELECT created.id, g.id, created.tenant_id, CASE WHEN g.start_at > clock_timestamp() THEN g.start_at END
          FROM created
         CROSS JOIN LATERAL (
                SELECT g.id, g.start_at FROM belfry.consumer_group g WHERE g.queue_id = created.queue_id AND g.whole_queue OFFSET 0) AS g;
    END IF;

    RETURN QUERY
    SELECT q.name, p.name, q.id, p.id, p.uid, q.encryption_enabled
      FROM unnest(p_queues, p_partitions) AS w(queue, partition)
     CROSS JOIN LATERAL (
            SELECT q.id, q.name, q.encryption_enabled FROM belfry.queue q
             WHERE q.name = w.queue AND q.deleted_at IS NULL OFFSET 0) AS q
     CROSS JOIN LATERAL (
            SELECT p.id, p.uid, p.name FROM belfry.partition p
             WHERE p.queue_id = q.id AND p.name = w.partition OFFSET 0) AS p;
END $$;

-- From sql/functions/push/open_tenants.sql.

-- Finds or creates the tenants of partitions that do not exist yet, and returns one id for each pair of names. The id
-- is NULL if the partition exists or gets no tenant. p_tenants may be NULL or have NULLs. Then the name of the
-- partition up to the tenantDelimiter of the queue is the tenant.
--
-- Until the commit, no other session deletes these tenants.
CREATE FUNCTION belfry.open_tenants(p_queues text[], p_partitions text[], p_tenants text[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_queues bigint[];
    v_names text[];
    v_ids bigint[];
BEGIN
    SELECT array_agg(q.id ORDER BY w.nth),
           array_agg(nullif(coalesce(w.tenant, CASE WHEN q.tenant_delimiter <> '' THEN split_part(w.partition, q.tenant_delimiter, 1) END), '')
                     ORDER BY w.nth)
      INTO v_queues, v_names
      FROM unnest(p_queues, p_partitions, p_tenants) WITH ORDINALITY AS w(queue, partition, tenant, nth)
      LEFT JOIN LATERAL (
            SELECT q.id, q.tenant_delimiter FROM belfry.queue q
             WHERE q.name = w.queue AND q.deleted_at IS NULL
               AND (SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = w.partition) IS NULL
            OFFSET 0) AS q ON true;
    LOOP
        INSERT INTO belfry.tenant (queue_id, name)
        SELECT DISTINCT w.queue_id, w.name FROM unnest(v_queues, v_names) AS w(queue_id, name)
         WHERE (SELECT t.id FROM belfry.tenant t WHERE t.queue_id = w.queue_id AND t.name = w.name) IS NULL
           AND w.queue_id IS NOT NULL AND w.name IS NOT NULL
         ORDER BY 1, 2
        ON CONFLICT (queue_id, name) DO NOTHING;
        PERFORM t.id FROM belfry.tenant t
          WHERE (t.queue_id, t.name) IN (SELECT w.queue_id, w.name FROM unnest(v_queues, v_names) AS w(queue_id, name))
          ORDER BY t.queue_id, t.name
            FOR KEY SHARE;
        SELECT array_agg(t.id ORDER BY w.nth) INTO v_ids
          FROM unnest(v_queues, v_names) WITH ORDINALITY AS w(queue_id, name, nth)
          LEFT JOIN LATERAL (
                SELECT t.id FROM belfry.tenant t WHERE t.queue_id = w.queue_id AND t.name = w.name OFFSET 0) AS t ON true;
        -- Another session may have deleted a tenant after the search for it.
        EXIT WHEN NOT EXISTS (
            SELECT FROM unnest(v_ids, v_queues, v_names) AS w(id, queue_id, name)
             WHERE w.id IS NULL AND w.queue_id IS NOT NULL AND w.name IS NOT NULL);
    END LOOP;
    RETURN v_ids;
END $$;

-- From sql/functions/push/raise_partition_gone.sql.

-- Raises BF001 in a push whose caller has outdated knowledge of a partition. The caller looks the
-- names up again and repeats the push.
CREATE FUNCTION belfry.raise_partition_gone() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a partition of this push does not exist any more' USING ERRCODE = 'BF001';
END $$;

-- From sql/functions/redrive/delete_message.sql.

-- Deletes a message with its dead letters, redrives, traces, failed attempts and marks of a resend. A cursor before the message skips it
-- from now on, so the depth of the cursor stays exact. A lease ends if it has no other message.
--
-- Returns a row for each changed cursor: the lease that may hold the message (or NULL), and the seconds
-- until the cursor is ready (NULL: not ready). If the message existed, a last row has only NULLs. Locks
-- the partition, then its cursors in group order. A wake must follow the commit.
CREATE FUNCTION belfry.delete_message(p_partition bigint, p_transaction text)
RETURNS TABLE (group_id bigint, lease_id uuid, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_seq bigint;
    v_committed bigint;
    v_skip int8multirange;
    v_redriven bigint;
    v_ends boolean;
    k record;
BEGIN
    PERFORM p.id FROM belfry.partition p WHERE p.id = p_partition AND NOT p.closed FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN; -- the purge of the queue deletes the message, and locks in another order
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE;
    DELETE FROM belfry.message m
     WHERE m.partition_id = p_partition AND m.transaction_id = p_transaction
    RETURNING m.seq INTO v_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE belfry.partition p SET holes = p.holes + 1 WHERE p.id = p_partition;
    DELETE FROM belfry.trace t WHERE t.partition_id = p_partition AND t.seq = v_seq;
    DELETE FROM belfry.attempt a WHERE a.partition_id = p_partition AND a.seq = v_seq;
    DELETE FROM belfry.resent r WHERE r.partition_id = p_partition AND r.seq = v_seq;
    DELETE FROM belfry.dead_letter d
     WHERE d.partition_id = p_partition AND d.seq = v_seq
       AND d.group_id = ANY (ARRAY (
            SELECT g.id FROM belfry.consumer_group g
             WHERE g.queue_id = (SELECT p.queue_id FROM belfry.partition p WHERE p.id = p_partition)));
    FOR k IN
        SELECT c.group_id, c.committed, c.skip, c.lease_id, c.lease_end, c.redrives
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition
         ORDER BY c.group_id
    LOOP
        DELETE FROM belfry.redrive r WHERE r.partition_id = p_partition AND r.group_id = k.group_id AND r.seq = v_seq
        RETURNING CASE WHEN r.lease_id = k.lease_id AND k.lease_end < 0 THEN 2 ELSE 1 END INTO v_redriven;
        v_redriven := coalesce(v_redriven, 0);
        CONTINUE WHEN v_redriven = 0 AND k.committed >= v_seq;
        group_id := k.group_id;
        lease_id := k.lease_id;
        v_skip := coalesce(k.skip, '{}') + int8multirange(int8range(v_seq, v_seq + 1));
        v_committed := belfry.passed(k.committed, v_skip);
        v_skip := belfry.skip_beyond(v_skip, v_committed);
        v_ends := k.lease_id IS NOT NULL
              AND CASE WHEN k.lease_end < 0 THEN v_redriven = 2 AND k.lease_end = -1
                       ELSE v_committed >= k.lease_end END;
        UPDATE belfry.cursor c
           SET committed = v_committed, skip = v_skip, redrives = nullif(c.redrives - least(v_redriven, 1), 0),
               -- Another message is the first after committed now. It was delivered at most once, in the
               -- same batch, and did not fail.
               attempts = CASE WHEN v_committed = k.committed THEN c.attempts
                               WHEN v_committed >= coalesce(c.lease_end, 0) THEN 0
                               ELSE least(c.attempts, 1) END,
               retry_at = CASE WHEN v_committed = k.committed THEN c.retry_at END,
               failures = CASE WHEN v_committed > k.committed THEN 0 ELSE c.failures END,
               lease_id = CASE WHEN v_ends THEN NULL ELSE c.lease_id END,
               lease_until = CASE WHEN v_ends THEN NULL ELSE c.lease_until END,
               lease_end = CASE WHEN v_ends THEN NULL WHEN v_redriven = 2 THEN c.lease_end + 1 ELSE c.lease_end END,
               ready_at = CASE WHEN v_ends OR (v_committed > k.committed OR v_redriven > 0) AND c.lease_id IS NULL
                    THEN belfry.ready_at(p_partition, v_committed, CASE WHEN c.start_at IS NULL THEN p.last_seq ELSE 0 END,
                                         p.last_push_at, p.visible_until, q.delayed_processing, q.window_buffer,
                                         CASE WHEN v_committed = k.committed THEN c.retry_at END,
                                         (c.redrives - least(v_redriven, 1))::integer, k.group_id)
                    ELSE c.ready_at END
          FROM belfry.partition p
          JOIN belfry.queue q ON q.id = p.queue_id
         WHERE c.partition_id = p_partition AND c.group_id = k.group_id AND p.id = p_partition
        RETURNING extract(epoch FROM c.ready_at - statement_timestamp())::float8 INTO ready_in;
        RETURN NEXT;
    END LOOP;
    RETURN QUERY SELECT NULL::bigint, NULL::uuid, NULL::float8;
END $$;

-- From sql/functions/redrive/existed.sql.

-- Reports whether a dead letter existed at a count. p_xmin is the transaction that inserted it, p_failed_at its failure. p_counted
-- is the snapshot of the count, and p_counted_at its instant. A dead letter is never updated, so its xmin says when it came.
--
-- An xmin has 32 bits. The function takes the transaction that is nearest to the snapshot. That is wrong for a row that is more
-- than 2^31 transactions old. So a dead letter that failed a day before the count always existed.
CREATE FUNCTION belfry.existed(p_xmin xid, p_failed_at timestamptz, p_counted pg_snapshot, p_counted_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_failed_at < p_counted_at - interval '1 day' OR p_xmin::text::bigint < 3
        OR pg_visible_in_snapshot(greatest(3, pg_snapshot_xmax(p_counted)::text::bigint - 2147483648
               + (p_xmin::text::bigint - pg_snapshot_xmax(p_counted)::text::bigint % 4294967296 + 6442450944) % 4294967296)::text::xid8, p_counted)
$$;

-- From sql/functions/redrive/move_message.sql.

-- Moves the instant before which no pop returns a message to p_visible_at, or to now if p_visible_at is NULL or
-- has passed. The message keeps its place in the log, so the later messages of the partition wait for it.
--
-- Returns no row if the message does not exist. refused is 'leased' if a live lease of group_name covers
-- the message. It is 'finished' if no group waits for the message, or if its instant has passed and group_name
-- has finished it. Otherwise before and after are the old and the new instant (NULL: no delay), and group_ids
-- are the groups whose cursor is ready in ready_in seconds. A lease that has ended leaves its cursor due,
-- and the next claim reads the new instant.
--
-- Locks the queue and its joining groups (shared), the partition, and its cursors in group order. Without the
-- first two, a join that does not see the new instant could create a cursor that is ready at the old one.
CREATE FUNCTION belfry.move_message(p_partition bigint, p_transaction text, p_visible_at timestamptz)
RETURNS TABLE (refused text, group_name text, before timestamptz, after timestamptz, group_ids bigint[], ready_in float8[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue bigint;
    v_seq bigint;
    k record;
BEGIN
    SELECT p.queue_id INTO v_queue FROM belfry.partition p WHERE p.id = p_partition;
    PERFORM q.id FROM belfry.queue q WHERE q.id = v_queue FOR SHARE;
    PERFORM g.id FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.joined_upto IS NOT NULL ORDER BY g.id FOR SHARE;
    PERFORM p.id FROM belfry.partition p WHERE p.id = p_partition AND NOT p.closed FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE;
    SELECT m.seq, m.visible_at INTO v_seq, before
      FROM belfry.message m WHERE m.partition_id = p_partition AND m.transaction_id = p_transaction;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT min(g.name) FILTER (WHERE s.leased) AS holder, min(g.name) FILTER (WHERE s.finished) AS reader,
           count(*) FILTER (WHERE NOT s.finished) AS waiting
      INTO k
      FROM (SELECT c.group_id, c.committed >= v_seq OR coalesce(v_seq <@ c.skip, false) AS finished,
                   c.lease_until > clock_timestamp()
                   AND CASE WHEN c.lease_end < 0 THEN EXISTS (
                                 SELECT FROM belfry.redrive r
                                  WHERE r.partition_id = p_partition AND r.group_id = c.group_id AND r.seq = v_seq AND r.lease_id = c.lease_id)
                            ELSE c.committed < v_seq AND v_seq <= c.lease_end AND NOT coalesce(v_seq <@ c.skip, false) END AS leased
              FROM belfry.cursor c
             WHERE c.partition_id = p_partition) AS s
      JOIN belfry.consumer_group g ON g.id = s.group_id;
    group_name := coalesce(k.holder, k.reader);
    refused := CASE WHEN k.holder IS NOT NULL THEN 'leased'
                    WHEN k.reader IS NOT NULL AND (k.waiting = 0 OR coalesce(before <= clock_timestamp(), true)) THEN 'finished' END;
    IF refused IS NULL THEN
        after := CASE WHEN p_visible_at > clock_timestamp() THEN p_visible_at END;
        UPDATE belfry.message m SET visible_at = after
         WHERE m.partition_id = p_partition AND m.seq = v_seq AND m.visible_at IS DISTINCT FROM after;
        UPDATE belfry.partition p SET visible_until = after
         WHERE p.id = p_partition AND after > coalesce(p.visible_until, '-infinity');
        WITH moved AS (
            UPDATE belfry.cursor c
               SET ready_at = belfry.ready_at(p_partition, c.committed, p.last_seq, p.last_push_at, p.visible_until,
                                              q.delayed_processing, q.window_buffer, c.retry_at, c.redrives, c.group_id)
              FROM belfry.partition p
              JOIN belfry.queue q ON q.id = p.queue_id
             WHERE c.partition_id = p_partition AND c.committed < v_seq AND c.lease_id IS NULL AND c.start_at IS NULL AND p.id = p_partition
            RETURNING c.group_id, extract(epoch FROM c.ready_at - statement_timestamp())::float8 AS ready_in
        )
        SELECT array_agg(w.group_id ORDER BY w.group_id), array_agg(w.ready_in ORDER BY w.group_id)
          INTO group_ids, ready_in
          FROM moved w WHERE w.ready_in IS NOT NULL;
    END IF;
    RETURN NEXT;
END $$;

-- From sql/functions/redrive/redrive_dead_letters.sql.

-- Puts the dead letters with the ids p_letters back for their groups. A dead letter without a cursor
-- stays. A dead letter without a message is deleted. Returns for each cursor the number of messages put
-- back, and the seconds until the cursor is ready. Locks the cursors in (partition, group) order before
-- it reads the dead letters, so each dead letter counts once.
CREATE FUNCTION belfry.redrive_dead_letters(p_letters bigint[])
RETURNS TABLE (group_id bigint, partition_id bigint, redriven bigint, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_partitions bigint[];
    v_groups bigint[];
BEGIN
    SELECT array_agg(k.partition_id ORDER BY k.partition_id, k.group_id), array_agg(k.group_id ORDER BY k.partition_id, k.group_id)
      INTO v_partitions, v_groups
      FROM (SELECT DISTINCT d.partition_id, d.group_id FROM belfry.dead_letter d WHERE d.id = ANY (p_letters)) AS k;
    PERFORM c.partition_id
       FROM unnest(v_partitions, v_groups) AS k(partition_id, group_id)
       JOIN belfry.cursor c ON c.partition_id = k.partition_id AND c.group_id = k.group_id
      WHERE c.partition_id = ANY (v_partitions)
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE OF c;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM belfry.dead_letter d
         WHERE d.id = ANY (p_letters)
           AND (SELECT true FROM belfry.cursor c WHERE c.partition_id = d.partition_id AND c.group_id = d.group_id)
        RETURNING d.partition_id, d.group_id, d.seq, d.attempts,
                  (SELECT true FROM belfry.message m WHERE m.partition_id = d.partition_id AND m.seq = d.seq) AS there,
                  -- After a seek, a message that is already redriven may become a dead letter again.
                  (SELECT true FROM belfry.redrive r
                    WHERE r.partition_id = d.partition_id AND r.group_id = d.group_id AND r.seq = d.seq) IS NULL AS fresh
    ), kept AS (
        INSERT INTO belfry.redrive (partition_id, group_id, seq, failures, attempts)
        SELECT g.partition_id, g.group_id, g.seq, g.attempts, g.attempts + 1
          FROM gone g
         WHERE g.there AND g.fresh
    ), counted AS (
        SELECT g.partition_id, g.group_id, count(*) AS n, count(*) FILTER (WHERE g.fresh) AS added
          FROM gone g
         WHERE g.there
         GROUP BY g.partition_id, g.group_id
    )
    UPDATE belfry.cursor c
       SET redrives = coalesce(c.redrives, 0) + k.added,
           ready_at = CASE WHEN c.lease_until > statement_timestamp() THEN c.ready_at
                           ELSE least(c.ready_at, statement_timestamp()) END
      FROM counted k
     WHERE c.partition_id = ANY (v_partitions) AND c.partition_id = k.partition_id AND c.group_id = k.group_id
    RETURNING c.group_id, c.partition_id, k.n, extract(epoch FROM c.ready_at - statement_timestamp())::float8;
END $$;

-- From sql/functions/roles/role_grants.sql.

-- Returns the statements that give role_name the rights of a 'producer', a 'consumer' or an 'admin'. The
-- role may also be a login role. The statements name all functions, because the default privileges of a
-- database may give PUBLIC no right to execute functions.
CREATE FUNCTION belfry.role_grants(kind text, role_name name) RETURNS SETOF text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF kind IS NULL OR kind NOT IN ('producer', 'consumer', 'admin') THEN
        RAISE EXCEPTION 'the kind % is not known', quote_nullable(kind) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''producer'', ''consumer'' or ''admin''.';
    END IF;
    RETURN QUERY SELECT format(s.text, role_name, pg_get_userbyid(o.relowner)) FROM pg_class o, (VALUES
        ('producer consumer admin', 'GRANT USAGE ON SCHEMA belfry TO %I'), ('producer consumer admin', 'GRANT SELECT ON belfry.grants TO %I'),
        ('producer admin', 'GRANT INSERT (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant), SELECT (id) ON belfry.inbox, belfry.outbox TO %I'),
        -- Rights on columns, because a role with UPDATE or DELETE on a whole table may also lock the table.
        ('producer admin', 'GRANT INSERT (target, queue, events, key, condition, payload, columns, headers, strict), UPDATE (events) ON belfry.attachment TO %I'),
        ('producer admin', 'GRANT INSERT (target, queue, event, code, message) ON belfry.attachment_failure TO %I'),
        ('producer admin', 'GRANT SELECT ON belfry.attachment, belfry.attachment_failure, belfry.attachments, belfry.outbox TO %I'),
        ('producer admin', 'GRANT SELECT ON belfry.schedules TO %I'),
        ('producer admin', 'GRANT EXECUTE ON FUNCTION belfry.unschedule(text), belfry.schedule(text, text, json, text, interval, timestamptz, text, '
            'text, json, interval, timestamptz, timestamptz, interval, text, text) TO %I'),
        ('producer consumer admin', (SELECT 'GRANT EXECUTE ON FUNCTION ' || string_agg(f.oid::regprocedure::text, ', ' ORDER BY f.oid) || ' TO %I' FROM pg_proc f
            WHERE f.pronamespace = 'belfry'::regnamespace AND (NOT f.prosecdef OR f.proname = 'await')
              AND f.proname NOT LIKE ALL (ARRAY['change_pause%', 'change_breaker%', 'set_limits', 'unblock_partition']))),
        ('consumer admin', 'GRANT EXECUTE ON FUNCTION belfry.subscribe(text, text, text, timestamptz), '
            'belfry.pop(text, text, integer, text, integer), belfry.ack(uuid, uuid[], text, text, interval, interval), belfry.extend(uuid, bigint) TO %I'),
        ('admin', 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA belfry TO %I'),
        ('admin', 'GRANT EXECUTE ON FUNCTION belfry.advance_ids(), belfry.change_grant(text, name, text, text, boolean), '
            'belfry.pause(text, text, text, text), belfry.resume(text, text, text), belfry.change_pause(text, text, text, boolean, text), '
            'belfry.unblock(text, text, text, text), belfry.unblock_partition(text, text, text, text, boolean), '
            'belfry.open_breaker(text, text, interval, text), belfry.close_breaker(text, text), '
            'belfry.change_breaker(text, text, boolean, interval, text), '
            'belfry.limit_group(text, text, json), belfry.set_limits(text, text, json) TO %I'),
        ('admin', 'REVOKE INSERT, UPDATE, DELETE ON belfry.schema_migrations FROM %I'),
        ('admin', 'ALTER DEFAULT PRIVILEGES FOR ROLE %2$I IN SCHEMA belfry GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %1$I')
    ) AS s(kinds, text)
     WHERE o.oid = 'belfry.queue'::regclass AND kind = ANY (string_to_array(s.kinds, ' '))
       -- Another migration tool stores the schema version in another table.
       AND (s.text NOT LIKE '%schema_migrations%' OR to_regclass('belfry.schema_migrations') IS NOT NULL);
END $$;

-- From sql/functions/roles/role_sql.sql.

-- Returns the statements that create the three roles and grant their rights. A role with CREATEROLE can
-- run the statements.
CREATE FUNCTION belfry.role_sql() RETURNS SETOF text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_kind text;
BEGIN
    FOREACH v_kind IN ARRAY ARRAY['producer', 'consumer', 'admin'] LOOP
        IF to_regrole('belfry_' || v_kind) IS NULL THEN
            RETURN NEXT format('CREATE ROLE %I NOLOGIN', 'belfry_' || v_kind);
        END IF;
        RETURN QUERY SELECT g.text FROM belfry.role_grants(v_kind, ('belfry_' || v_kind)::name) AS g(text);
    END LOOP;
END $$;

-- From sql/functions/schedule/check_schedule.sql.

-- Raises an error if a schedule cannot have these values. The expression of cron is checked by the
-- server, except for its number of fields.
CREATE FUNCTION belfry.check_schedule(
    p_name text, p_partition text, p_payload json, p_cron text, p_every interval, p_at timestamptz, p_zone text,
    p_starts timestamptz, p_ends timestamptz, p_jitter interval, p_missed text, p_overlap_group text
) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_problem text;
    v_hint text;
    v_known boolean := true;
BEGIN
    BEGIN
        PERFORM now() AT TIME ZONE p_zone;
    EXCEPTION WHEN invalid_parameter_value THEN
        v_known := false;
    END;
    SELECT c.problem, c.hint INTO v_problem, v_hint FROM (VALUES
        (octet_length(coalesce(p_name, '')) NOT BETWEEN 1 AND 200 OR p_name IN ('.', '..'),
            'the name of the schedule is ' || CASE WHEN p_name IN ('.', '..') THEN p_name ELSE coalesce(octet_length(p_name) || ' bytes long', 'NULL') END,
            'A name has 1 to 200 bytes, and is not . or .., because clients remove these from paths.'),
        (p_name ~ '[\u0001-\u001f\u007f]', 'the name of the schedule has a control character', 'Remove it.'),
        (octet_length(p_partition) > 255 OR p_partition IN ('.', '..'), 'the name of the partition is not valid',
            'A name has at most 255 bytes, and is not . or .., because clients remove these from paths.'),
        (p_payload IS NULL, 'the payload is NULL', 'For the JSON value null write ''null''. To make JSON from a row write to_json(row).'),
        (octet_length(p_payload::text) > 65536, 'the payload has ' || octet_length(p_payload::text) || ' bytes',
            'A schedule has a payload of at most 65536 bytes. Store larger values elsewhere and name their place in the payload.'),
        (num_nonnulls(p_cron, p_every, p_at) <> 1, 'a schedule needs exactly one of cron, every and at, and has ' || num_nonnulls(p_cron, p_every, p_at),
            'Give cron => ''0 8 * * 1-5'', every => ''10 minutes'' or at => now() + interval ''1 day''.'),
        (octet_length(p_cron) > 512 OR trim(p_cron) !~ '^(@\S+( \S+)?|\S+(\s+\S+){4,5})$', 'the cron expression ' || quote_literal(left(p_cron, 80)) || ' does not have five or six fields',
            'Write minute, hour, day, month and weekday, such as ''0 8 * * 1-5'', or a name such as @daily. A sixth field before them is the second.'),
        (extract(year FROM p_every) <> 0 OR extract(month FROM p_every) <> 0, 'every is ' || p_every || ', and months have different lengths',
            'Use cron => ''0 0 1 * *'' for the first of each month.'),
        (extract(epoch FROM p_every) NOT BETWEEN 1 AND 366 * 86400 OR extract(epoch FROM p_every) <> floor(extract(epoch FROM p_every)),
            'every is ' || p_every, 'Give whole seconds, from 1 second to 366 days.'),
        (NOT isfinite(p_at) OR NOT isfinite(p_starts) OR NOT isfinite(p_ends), 'at, starts or ends is infinite', 'Give an instant, or leave the argument out.'),
        (p_ends <= p_starts, 'ends is not after starts', 'Give an end after the start.'),
        (p_zone IS NULL OR NOT v_known, 'the time zone ' || quote_nullable(p_zone) || ' is not known', 'Give a name such as ''Europe/Rome''.'),
        (extract(epoch FROM p_jitter) NOT BETWEEN 0 AND 86400, 'the jitter is ' || p_jitter, 'Give a time from 0 to 1 day.'),
        (p_missed IS NULL OR p_missed NOT IN ('skip', 'one', 'all'), 'missed is ' || quote_nullable(p_missed), 'Use ''skip'', ''one'' or ''all''.'),
        (octet_length(p_overlap_group) NOT BETWEEN 1 AND 255, 'the name of overlap_group is ' || octet_length(p_overlap_group) || ' bytes long',
            'Name the consumer group that must have finished the last message.')
    ) AS c(wrong, problem, hint) WHERE c.wrong LIMIT 1;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'belfry.schedule: %', v_problem USING ERRCODE = 'invalid_parameter_value', HINT = v_hint;
    END IF;
END $$;

-- From sql/functions/schedule/check_scheduler.sql.

-- Raises 42501 if the role of the session may not push to a queue, so it may not change a schedule of
-- the queue. Its callers are SECURITY DEFINER functions with a fixed search path.
CREATE FUNCTION belfry.check_scheduler(p_queues text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF belfry.pushes_are_checked() THEN
        PERFORM belfry.check_push_grants(belfry.calling_role(), p_queues);
    END IF;
END $$;

-- From sql/functions/schedule/schedule.sql.

-- Creates a schedule, or replaces the schedule of this name, when the calling transaction commits. It
-- pushes the payload to the queue at each instant of cron, of every, or once at an instant. Returns
-- whether the schedule is new. The role needs the right to push to the queue.
--
-- In texts of payload and headers, {{schedule}} is the name and {{scheduled_at}} the instant. A
-- schedule that is replaced stays paused if it was paused. If its instants are the same as before, no
-- instant is lost or repeated.
CREATE FUNCTION belfry.schedule(
    name text, queue text, payload json, cron text DEFAULT NULL, every interval DEFAULT NULL, at timestamptz DEFAULT NULL,
    zone text DEFAULT 'UTC', partition text DEFAULT 'Default', headers json DEFAULT NULL, delay interval DEFAULT NULL,
    starts timestamptz DEFAULT NULL, ends timestamptz DEFAULT NULL, jitter interval DEFAULT NULL,
    missed text DEFAULT 'one', overlap_group text DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_old belfry.schedule;
    v_new belfry.schedule;
    v_now timestamptz;
BEGIN
    PERFORM belfry.check_schedule(name, partition, payload, cron, every, at, zone, starts, ends, jitter, missed, overlap_group);
    PERFORM belfry.check_push(queue, delay, NULL);
    PERFORM belfry.check_scheduler(ARRAY[queue]);
    LOOP
        SELECT * INTO v_old FROM belfry.schedule s WHERE s.name = name FOR NO KEY UPDATE;
        PERFORM belfry.check_scheduler(ARRAY[v_old.queue]) WHERE v_old.id IS NOT NULL;
        v_now := clock_timestamp();
        v_new := v_old;
        v_new.name := name; v_new.queue := queue; v_new.partition := coalesce(partition, 'Default'); v_new.payload := payload;
        v_new.cron := trim(cron); v_new.every_seconds := extract(epoch FROM every); v_new.at := at; v_new.zone := zone;
        v_new.starts := starts; v_new.ends := ends; v_new.jitter := coalesce(jitter, '0'); v_new.missed := missed;
        v_new.overlap_group := overlap_group; v_new.headers := belfry.check_headers(headers); v_new.delay := coalesce(delay, '0');
        v_new.scheduled_by := quote_ident(belfry.calling_role())::regrole;
        IF v_old.error IS NOT NULL
           OR (v_new.cron, v_new.every_seconds, v_new.at, v_new.zone, v_new.starts, v_new.ends, v_new.jitter) IS DISTINCT FROM
              (v_old.cron, v_old.every_seconds, v_old.at, v_old.zone, v_old.starts, v_old.ends, v_old.jitter) THEN
            IF at <= v_now THEN
                RAISE EXCEPTION 'belfry.schedule: the instant % is in the past', at
                    USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a later instant. To send a message now, call belfry.push.';
            END IF;
            v_new.handled_to := greatest(v_old.handled_to, v_now);
            v_new.next_at := NULL;
            v_new.due_at := CASE WHEN v_old.paused IS NOT TRUE THEN '-infinity'::timestamptz END;
        END IF;
        IF (queue, v_new.partition) IS DISTINCT FROM (v_old.queue, v_old.partition) THEN
            v_new.last_transaction_id := NULL; -- overlap_group cannot find the message any more
            v_new.last_inbox_id := NULL;
        END IF;
        IF v_old.id IS NULL THEN
            INSERT INTO belfry.schedule (name, queue, partition, cron, every_seconds, at, zone, starts, ends, jitter, missed, overlap_group,
                                         payload, headers, delay, scheduled_by, handled_to)
            VALUES (v_new.name, v_new.queue, v_new.partition, v_new.cron, v_new.every_seconds, v_new.at, v_new.zone, v_new.starts, v_new.ends,
                    v_new.jitter, v_new.missed, v_new.overlap_group, v_new.payload, v_new.headers, v_new.delay, v_new.scheduled_by, v_new.handled_to)
            ON CONFLICT ON CONSTRAINT schedule_name_key DO NOTHING;
            IF FOUND THEN
                RETURN true;
            END IF; -- else another transaction has just created the schedule
        ELSE
            UPDATE belfry.schedule s
               SET queue = v_new.queue, partition = v_new.partition, cron = v_new.cron, every_seconds = v_new.every_seconds, at = v_new.at,
                   zone = v_new.zone, starts = v_new.starts, ends = v_new.ends, jitter = v_new.jitter, missed = v_new.missed,
                   overlap_group = v_new.overlap_group, payload = v_new.payload, headers = v_new.headers, delay = v_new.delay,
                   handled_to = v_new.handled_to, next_at = v_new.next_at, due_at = v_new.due_at, last_transaction_id = v_new.last_transaction_id,
                   last_inbox_id = v_new.last_inbox_id, error = NULL, scheduled_by = v_new.scheduled_by, changed_at = clock_timestamp()
             WHERE s.id = v_old.id;
            RETURN false;
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION belfry.schedule(text, text, json, text, interval, timestamptz, text, text, json, interval, timestamptz, timestamptz, interval, text, text) FROM PUBLIC;

-- From sql/functions/schedule/unschedule.sql.

-- Deletes a schedule when the calling transaction commits. Its stored messages stay. Returns false if
-- there is no schedule of this name. The role needs the right to push to the queue of the schedule.
CREATE FUNCTION belfry.unschedule(name text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_queue text;
BEGIN
    DELETE FROM belfry.schedule s WHERE s.name = $1 RETURNING s.queue INTO v_queue;
    IF v_queue IS NULL THEN
        RETURN false;
    END IF;
    PERFORM belfry.check_scheduler(ARRAY[v_queue]);
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION belfry.unschedule(text) FROM PUBLIC;

-- From sql/functions/stats/late_after.sql.

-- Returns from which age in seconds on an unfinished message makes its group late: half of the maxWaitTimeSeconds of the
-- queue, p_max_wait_time, or p_default if the queue has none. NULL: the group is never late. A sweep deletes the message
-- at the age of maxWaitTimeSeconds, so half of it leaves time to react.
CREATE FUNCTION belfry.late_after(p_max_wait_time bigint, p_default float8) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_max_wait_time > 0 THEN p_max_wait_time / 2.0::float8 WHEN p_default > 0 THEN p_default END
$$;

-- From sql/functions/stats/partition_counts.sql.

-- Counts the messages of one partition by state, in one row. done is the seq up to which every group has
-- finished. The cost grows with groups and dead letters, not with messages. The body is one SELECT, so
-- the planner inlines it.
--
-- remaining is the number of messages that a group must still finish. waiting is the number of these
-- messages that no live lease of the log covers. Both include redriven messages. The group with the most
-- remaining messages decides the state of a message. Without a group, every message is pending. A
-- dead-lettered message counts only as dead.
--
-- A cursor does not know every deleted message after it. least() subtracts the deleted messages from
-- waiting, never from the leased messages. Until the cursor has passed the deleted messages, the same
-- number of completed messages may count as waiting.
CREATE FUNCTION belfry.partition_counts(p_partition bigint, p_last_seq bigint, p_trimmed bigint, p_holes bigint)
RETURNS TABLE (total bigint, pending bigint, processing bigint, completed bigint, dead bigint, done bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.total,
           coalesce(c.waiting, s.alive),
           coalesce(c.remaining, s.alive) - coalesce(c.waiting, s.alive),
           s.alive - coalesce(c.remaining, s.alive),
           s.total - s.alive,
           coalesce(c.done, p_trimmed)
      FROM (SELECT d.seqs, p_last_seq - p_trimmed - p_holes AS total,
                   greatest(p_last_seq - p_trimmed - p_holes - coalesce(belfry.skipped_after(d.seqs, p_trimmed), 0), 0) AS alive
              FROM (SELECT range_agg(int8range(l.seq, l.seq + 1)) AS seqs FROM belfry.dead_letter l
                     WHERE l.partition_id = p_partition AND l.seq > p_trimmed
                    OFFSET 0) AS d
            OFFSET 0) AS s
     CROSS JOIN LATERAL (
            SELECT max(least(u.remaining, s.alive)) AS remaining,
                   max(greatest(least(u.waiting, s.alive - u.remaining + u.waiting), 0)) AS waiting,
                   min(u.done) AS done
              FROM (SELECT CASE WHEN k.redriven > 0 THEN least(k.place, (
                                SELECT r.seq - 1 FROM belfry.redrive r
                                 WHERE r.partition_id = p_partition AND r.group_id = k.group_id
                                 ORDER BY r.seq LIMIT 1)) ELSE k.place END AS done,
                           p_last_seq - k.place + k.redriven
                           - CASE WHEN k.nothing_gone THEN 0 ELSE
                             belfry.skipped_after(coalesce(k.skip + s.seqs, k.skip, s.seqs), k.place) END AS remaining,
                           p_last_seq - k.leased + k.redriven
                           - CASE WHEN k.nothing_gone THEN 0 ELSE
                             belfry.skipped_after(coalesce(k.skip + s.seqs, k.skip, s.seqs), k.leased) END AS waiting
                      FROM (SELECT c.group_id, c.skip, coalesce(c.redrives, 0) AS redriven, c.skip IS NULL AND s.seqs IS NULL AS nothing_gone,
                                   greatest(c.committed, p_trimmed) AS place,
                                   greatest(c.committed, p_trimmed,
                                            CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_end END) AS leased
                              FROM belfry.cursor c
                             WHERE c.partition_id = p_partition) AS k
                    OFFSET 0) AS u
            OFFSET 0) AS c
$$;

-- From sql/functions/sweep/remove_idle_partition.sql.

-- Deletes a partition and its cursors if it has no message, no dead letter and no state of a stream, and
-- got no push for p_idle. Returns whether the partition was deleted. While a group joins the queue, no
-- partition is deleted, because join_page may be creating a cursor.
--
-- Locks the queue (shared, so no group can be registered), then the partition, then its cursors. A push
-- that waits for the lock finds no partition, looks up the name again, and creates a new partition. A
-- claim or an ack finds no cursor.
CREATE FUNCTION belfry.remove_idle_partition(p_partition bigint, p_idle interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint;
    v_tenant bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT q.id INTO v_queue
      FROM belfry.queue q
     WHERE q.id = (SELECT p.queue_id FROM belfry.partition p WHERE p.id = p_partition) AND q.deleted_at IS NULL
       FOR SHARE;
    IF NOT FOUND OR EXISTS (SELECT 1 FROM belfry.consumer_group g WHERE g.queue_id = v_queue AND g.joined_upto IS NOT NULL) THEN
        RETURN false;
    END IF;
    PERFORM p.id FROM belfry.partition p
      WHERE p.id = p_partition AND NOT p.closed AND coalesce(p.last_push_at, p.created_at) <= clock_timestamp() - p_idle
        FOR UPDATE;
    IF NOT FOUND
       OR EXISTS (SELECT 1 FROM belfry.message m WHERE m.partition_id = p_partition)
       OR EXISTS (SELECT 1 FROM belfry.dead_letter d WHERE d.partition_id = p_partition)
       OR EXISTS (SELECT 1 FROM belfry.stream_state s WHERE s.partition_id = p_partition) THEN
        RETURN false;
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR UPDATE;
    DELETE FROM belfry.cursor c WHERE c.partition_id = p_partition;
    DELETE FROM belfry.redrive r WHERE r.partition_id = p_partition;
    DELETE FROM belfry.partition p WHERE p.id = p_partition RETURNING p.tenant_id INTO v_tenant;
    IF v_tenant IS NOT NULL THEN
        PERFORM belfry.remove_idle_tenant(v_tenant);
    END IF;
    RETURN true;
END $$;

-- From sql/functions/sweep/remove_idle_tenant.sql.

-- Deletes a tenant that has no partition. If a session is creating a partition of the tenant, the tenant stays; see
-- open_tenants.
CREATE FUNCTION belfry.remove_idle_tenant(p_tenant bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM t.id FROM belfry.tenant t WHERE t.id = p_tenant FOR UPDATE SKIP LOCKED;
    IF FOUND AND NOT EXISTS (SELECT FROM belfry.partition p WHERE p.tenant_id = p_tenant) THEN
        DELETE FROM belfry.tenant t WHERE t.id = p_tenant;
    END IF;
END $$;

-- From sql/functions/sweep/sweep_partition.sql.

-- One step of a sweep over one partition: deletes up to p_limit messages by the options of the queue and
-- moves cursors past them. pkg/engine/sweep calls it until more is false.
--
-- p_evict selects the rules, in this order:
--
--   true   'expired' (expireAfterSeconds): moves cursors and deletes nothing. With
--          deadLetterExpired the messages become dead letters, as in skip_undeliverable.
--          'evicted' (maxWaitTimeSeconds): deletes messages that a group has not consumed, or that
--          no group reads.
--   false  'retention' (retentionSeconds): deletes messages, consumed or not.
--          'completed' (completedRetentionSeconds): deletes messages behind every cursor.
--          Without retentionEnabled, only 'completed' applies, with the limit p_completed.
--
-- p_above: NULL, or a seq. The sweep then examines the swept messages above this seq again, because
-- earlier sweeps kept some of them.
--
-- Locks the queue (shared, so no group can be registered), the partition, and its cursors in group
-- order. So a live lease stays live until the commit. The messages of a live lease are not deleted, and
-- its cursor does not move.
--
-- A dead-lettered message is kept until its dead letters are settled or purged. 'retention' deletes it
-- with its dead letters once all of them are old enough and no other session has locked them.
--
-- created_at never decreases within a log, so the first p_limit messages of the range are enough. The
-- commit does not wait for the disk: the next sweep repeats a lost step.
--
-- Returns the counts by rule (sql/schema/queue_sweep.sql). more: another step may find work. seen: with
-- p_above, the p_above of the next step. groups, ready_in: the moved cursors, from move_cursors.
CREATE FUNCTION belfry.sweep_partition(p_queue bigint, p_partition bigint, p_evict boolean, p_limit bigint, p_above bigint, p_completed bigint DEFAULT 0)
RETURNS TABLE (
    skipped bigint, retention bigint, completed bigint, evicted bigint, expired bigint, unread bigint, more boolean, seen bigint,
    groups bigint[], ready_in float8[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_cutoff timestamptz;
    v_room bigint := p_limit;
    v_low bigint;
    v_held bigint;
    v_free bigint;
    v_start bigint;
    v_bound bigint;
    v_upto bigint;
    v_seen bigint;
    v_n bigint;
    v_seqs bigint[];
    v_kept bigint[];
    v_deleted bigint;
    v_unread bigint;
    v_gone bigint := 0;
    v_swept bigint;
    v_trimmed bigint;
    q record;
    p record;
    rule record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT k.retention_enabled, k.retention_seconds, k.max_wait_time_seconds, k.expire_after_seconds, k.dead_letter_expired,
           CASE WHEN k.retention_enabled THEN k.completed_retention_seconds ELSE p_completed END AS completed_retention_seconds
      INTO q
      FROM belfry.queue k
     WHERE k.id = p_queue AND k.deleted_at IS NULL
       FOR SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT k.last_seq, k.trimmed, k.swept
      INTO p
      FROM belfry.partition k
     WHERE k.id = p_partition AND k.queue_id = p_queue AND NOT k.closed
       FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM c.group_id FROM belfry.cursor c
      WHERE c.partition_id = p_partition
      ORDER BY c.partition_id, c.group_id
        FOR NO KEY UPDATE;
    -- Reads the clock after the locks: a lease may end or be extended while this call waits for them.
    v_now := clock_timestamp();
    v_swept := greatest(p.swept, p.trimmed);
    retention := 0; completed := 0; evicted := 0; expired := 0; unread := 0; skipped := 0;
    more := false;
    groups := '{}'; ready_in := '{}';

    FOR rule IN
        SELECT r.name, r.seconds
          FROM (VALUES (1, 'expired', q.expire_after_seconds, p_evict),
                       (2, 'evicted', q.max_wait_time_seconds, p_evict),
                       (3, 'retention', q.retention_seconds, q.retention_enabled AND NOT p_evict),
                       (4, 'completed', q.completed_retention_seconds, NOT p_evict))
               AS r(nth, name, seconds, wanted)
         WHERE r.wanted AND r.seconds > 0
         ORDER BY r.nth
    LOOP
        SELECT min(c.committed), min(c.committed) FILTER (WHERE c.lease_until > v_now),
               min(c.committed) FILTER (WHERE coalesce(c.lease_until <= v_now, true))
          INTO v_low, v_held, v_free
          FROM belfry.cursor c
         WHERE c.partition_id = p_partition;
        IF rule.name = 'completed' AND EXISTS (
            SELECT 1 FROM belfry.consumer_group g
             WHERE g.queue_id = p_queue AND g.joined_upto IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM belfry.cursor c WHERE c.partition_id = p_partition AND c.group_id = g.id)
        ) THEN
            v_low := 0; -- a group that joins has no cursor here yet
        END IF;
        v_cutoff := v_now - make_interval(secs => least(rule.seconds, 3153600000)); -- at most 100 years
        CONTINUE WHEN rule.name = 'expired' AND v_free IS NULL;
        v_start := greatest(p.trimmed, CASE
            WHEN rule.name = 'expired' THEN v_free
            WHEN rule.name = 'evicted' THEN v_low
            WHEN p_above IS NOT NULL THEN p_above
            ELSE v_swept END);
        v_bound := CASE WHEN p_above IS NULL THEN p.last_seq ELSE p.swept END;
        IF rule.name = 'completed' THEN
            v_bound := least(v_bound, coalesce(v_low, 0)); -- without a group, no message is completed
        END IF;
        IF p_above IS NOT NULL THEN
            v_room := p_limit;
        END IF;
        EXIT WHEN v_room <= 0;

        SELECT count(*), max(s.seq), max(s.seq) FILTER (WHERE s.created_at <= v_cutoff),
               array_agg(s.seq ORDER BY s.seq) FILTER (WHERE s.created_at <= v_cutoff)
          INTO v_n, v_seen, v_upto, v_seqs
          FROM (SELECT m.seq, m.created_at
                  FROM belfry.message m
                 WHERE m.partition_id = p_partition AND m.seq > v_start AND m.seq <= v_bound
                   AND (v_held IS NULL OR m.seq <= v_held OR rule.name = 'expired' OR NOT EXISTS (
                        SELECT 1 FROM belfry.cursor c
                         WHERE c.partition_id = p_partition AND c.lease_until > v_now
                           AND m.seq > c.committed AND m.seq <= c.lease_end))
                 ORDER BY m.seq LIMIT v_room) AS s;
        IF p_above IS NOT NULL AND v_n = p_limit THEN
            seen := least(seen, v_seen);
        END IF;
        CONTINUE WHEN v_upto IS NULL;
        v_room := v_room - cardinality(v_seqs);

        IF rule.name = 'expired' THEN
            IF q.dead_letter_expired THEN
                INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
                SELECT p_partition, m.seq, c.group_id, CASE WHEN m.seq = c.committed + 1 THEN c.attempts ELSE 0 END,
                       'expired after ' || q.expire_after_seconds || ' s'
                  FROM belfry.cursor c
                  JOIN belfry.consumer_group g ON g.id = c.group_id
                  JOIN belfry.message m ON m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto
                 WHERE c.partition_id = p_partition AND coalesce(c.lease_until <= v_now, true)
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                 ORDER BY c.group_id, m.seq
                ON CONFLICT (partition_id, group_id, seq) DO NOTHING;
            END IF;
        ELSE
            v_kept := '{}';
            IF rule.name = 'retention' THEN
                SELECT coalesce(array_agg(d.seq), '{}') INTO v_kept
                  FROM belfry.dead_letter d
                 WHERE d.partition_id = p_partition AND d.seq > v_start AND d.seq <= v_upto AND d.failed_at > v_cutoff;
                DELETE FROM belfry.dead_letter l
                 WHERE l.id = ANY (ARRAY (
                        SELECT d.id FROM belfry.dead_letter d
                         WHERE d.partition_id = p_partition AND d.seq > v_start AND d.seq <= v_upto
                           AND d.seq = ANY (v_seqs) AND d.seq <> ALL (v_kept)
                           FOR UPDATE SKIP LOCKED));
            END IF;
            SELECT coalesce(array_agg(d.seq), '{}') INTO v_kept
              FROM (SELECT l.seq FROM belfry.dead_letter l
                     WHERE l.partition_id = p_partition AND l.seq > v_start AND l.seq <= v_upto
                    UNION ALL
                    SELECT r.seq FROM belfry.redrive r
                     WHERE r.partition_id = p_partition AND r.seq > v_start AND r.seq <= v_upto) AS d;
            WITH gone AS (
                DELETE FROM belfry.message m
                 WHERE m.partition_id = p_partition AND m.seq > v_start AND m.seq <= v_upto
                   AND (v_held IS NULL OR m.seq = ANY (v_seqs)) AND m.seq <> ALL (v_kept)
                RETURNING m.seq
            )
            SELECT count(*), count(*) FILTER (WHERE g.seq > coalesce(v_low, 0)) INTO v_deleted, v_unread FROM gone g;
            DELETE FROM belfry.trace t
             WHERE t.partition_id = p_partition AND t.seq > v_start AND t.seq <= v_upto
               AND (v_held IS NULL OR t.seq = ANY (v_seqs)) AND t.seq <> ALL (v_kept);
            DELETE FROM belfry.attempt a
             WHERE a.partition_id = p_partition AND a.seq > v_start AND a.seq <= v_upto
               AND (v_held IS NULL OR a.seq = ANY (v_seqs)) AND a.seq <> ALL (v_kept);
            DELETE FROM belfry.resent r
             WHERE r.partition_id = p_partition AND r.seq > v_start AND r.seq <= v_upto
               AND (v_held IS NULL OR r.seq = ANY (v_seqs)) AND r.seq <> ALL (v_kept);
            v_gone := v_gone + v_deleted;
            unread := unread + v_unread;
            CASE rule.name
                WHEN 'retention' THEN retention := retention + v_deleted;
                WHEN 'completed' THEN completed := completed + v_deleted;
                ELSE evicted := evicted + v_deleted;
            END CASE;
            IF rule.name <> 'evicted' THEN
                v_swept := greatest(v_swept, least(v_upto, coalesce(v_held, v_upto)));
            END IF;
        END IF;
        IF rule.name <> 'completed' THEN
            IF rule.name = 'expired' OR v_free < v_upto AND (v_held IS NOT NULL OR v_kept <> '{}') THEN
                SELECT count(*) INTO v_n
                  FROM belfry.cursor c
                  JOIN belfry.message m ON m.partition_id = p_partition AND m.seq > c.committed AND m.seq <= v_upto
                 WHERE c.partition_id = p_partition AND coalesce(c.lease_until <= v_now, true)
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip);
                IF rule.name = 'expired' THEN
                    expired := expired + v_n;
                ELSE
                    skipped := skipped + v_n;
                END IF;
            END IF;
            SELECT groups || array_agg(m.group_id), sweep_partition.ready_in || array_agg(m.ready_in)
              INTO groups, ready_in
              FROM belfry.move_cursors(p_partition, v_upto, v_now) AS m;
        END IF;
    END LOOP;
    v_n := cardinality(groups);

    SELECT m.seq - 1 INTO v_trimmed
      FROM belfry.message m
     WHERE m.partition_id = p_partition AND m.seq > p.trimmed
     ORDER BY m.seq LIMIT 1;
    v_trimmed := coalesce(v_trimmed, p.last_seq);
    v_swept := greatest(v_swept, v_trimmed);
    -- After a step without progress, another step would find nothing: the remaining messages must stay.
    more := p_above IS NULL AND v_room <= 0 AND (v_gone > 0 OR v_n > 0 OR v_swept > p.swept);
    IF v_gone > 0 OR v_trimmed > p.trimmed OR v_swept > p.swept THEN
        UPDATE belfry.partition k
           SET trimmed = v_trimmed, holes = k.holes + v_gone - (v_trimmed - p.trimmed), swept = v_swept
         WHERE k.id = p_partition;
    END IF;
    -- A seek or a new group may have put a cursor before the first stored message.
    SELECT groups || array_agg(m.group_id), sweep_partition.ready_in || array_agg(m.ready_in)
      INTO groups, ready_in
      FROM belfry.move_cursors(p_partition, v_trimmed, v_now) AS m;
    IF v_gone > 0 OR expired > 0 OR skipped > 0 THEN
        INSERT INTO belfry.queue_sweep AS t (queue_id, retention, completed, evicted, unread, expired, skipped)
        VALUES (p_queue, retention, completed, evicted, unread, expired, skipped)
        ON CONFLICT (queue_id) DO UPDATE
           SET retention = t.retention + excluded.retention, completed = t.completed + excluded.completed,
               evicted = t.evicted + excluded.evicted, unread = t.unread + excluded.unread,
               expired = t.expired + excluded.expired, skipped = t.skipped + excluded.skipped;
    END IF;
    RETURN NEXT;
END $$;

-- From sql/functions/wake/announce_ready.sql.

-- Announces a ready cursor to the servers at the commit. Every SQL function that sets ready_at to a
-- value calls it, also for an instant in the future. pkg/postgres/listen describes the notification.
--
-- The notification has the instant at which the cursor is ready, so a server need not scan all index
-- entries. It has 0 (unknown) for an instant less than ten seconds ahead, which may pass before the
-- commit. A session with belfry.notify = off announces nothing: waiting requests see the cursor at the
-- next dispatch.fallback_interval.
CREATE FUNCTION belfry.announce_ready(p_group bigint, p_partition bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz;
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) IN ('off', 'false', 'no', '0')
       OR pg_notification_queue_usage() >= 0.97 THEN -- a full queue would fail the transaction
        RETURN;
    END IF;
    SELECT c.ready_at INTO v_at FROM belfry.cursor c
     WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group ORDER BY c.group_id DESC LIMIT 1;
    IF v_at > clock_timestamp() AND v_at < clock_timestamp() + interval '10 seconds' OR v_at > '9999-12-31' THEN
        v_at := NULL;
    END IF;
    PERFORM pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000000;r=%s/%s@%s', p_group, p_partition,
                                       coalesce((extract(epoch FROM v_at) * 1000000)::bigint, 0)));
END $$;

-- From sql/functions/wake/await.sql.

-- Lets a SQL session wait for messages without polling. The session LISTENs on a channel for this queue,
-- group and partition, and requests a notification on it from the servers. Both take effect at the
-- commit, in this order. Returns the name of the channel.
--
-- The servers answer a request once. So a session repeats the call after each pop that found nothing, and
-- after a notification on belfry_again: a server sends it when it has just connected, because it may
-- have missed requests. The channel name is a hash of the request, so the queue need not exist. Every
-- role can hear notifications and forge them. So the request is encrypted, and has a tag: a hash of the
-- request, the session and belfry.channel_key. SECURITY DEFINER, because it reads the key and the grants.
CREATE FUNCTION belfry.await(queue text, consumer_group text DEFAULT '__QUEUE_MODE__', partition text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_key bytea := (SELECT k.key FROM belfry.channel_key k);
    v_request bytea := convert_to(json_build_array(await.queue, await.consumer_group, await.partition)::text, 'UTF8');
    v_tag bytea := substring(sha256(v_key || 'waiter' || int4send(pg_backend_pid()) || v_request) FOR 16);
    v_channel text := 'belfry_' || left(encode(sha256(v_key || 'channel' || v_request), 'hex'), 32);
    v_mask bytea;
BEGIN
    PERFORM belfry.check_consumer(await.queue, await.consumer_group);
    IF octet_length(await.partition) > 255 THEN
        RAISE EXCEPTION 'the name of the partition is % bytes long', octet_length(await.partition)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has at most 255 bytes.';
    END IF;
    SELECT substring(string_agg(sha256(v_key || 'mask' || v_tag || int4send(i)), '' ORDER BY i) FOR octet_length(v_request))
      INTO v_mask FROM generate_series(0, octet_length(v_request) / 32) i;
    EXECUTE format('LISTEN %I', v_channel);
    LISTEN belfry_again;
    PERFORM pg_notify('belfry_await', encode(v_tag || substring(varbit_send( -- the first 4 bytes are the length
        ('x' || encode(v_request, 'hex'))::varbit # ('x' || encode(v_mask, 'hex'))::varbit) FROM 5), 'base64'));
    RETURN v_channel;
END $$;

-- From sql/functions/wake/hold_drained.sql.

-- Locks the partition if no push holds the lock, and never waits. Returns true if p_committed is then
-- the last seq. Pushes need the lock, so p_committed stays the last seq until this transaction ends. So a
-- cursor at p_committed needs no wake after the commit. The caller must not wait for another lock after
-- this call. Pushes to the partition wait for the commit, so only transactions with one cursor call it.
CREATE FUNCTION belfry.hold_drained(p_partition bigint, p_committed bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_last_seq bigint;
BEGIN
    SELECT p.last_seq INTO v_last_seq FROM belfry.partition p
     WHERE p.id >= p_partition AND p.id <= p_partition ORDER BY p.id DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    RETURN coalesce(v_last_seq = p_committed, false);
END $$;

-- From sql/functions/wake/needs_wake.sql.

-- Reports whether a cursor may have ready messages although ready_at is NULL, or although ready_at is
-- the end of a retry delay of redriven messages. The index cursor_asleep must contain all such cursors.
CREATE FUNCTION belfry.needs_wake(ready_at timestamptz, committed bigint, last_seq bigint, redrives integer, lease_id uuid)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN $1 IS NULL THEN $2 < $3 OR coalesce($4, 0) > 0
                ELSE coalesce($4, 0) > 0 AND $2 < $3 AND $1 > statement_timestamp() AND $5 IS NULL END
$$;

-- From sql/functions/wake/settle_drained.sql.

-- Sets ready_at to NULL for cursors that are marked ready although nothing is left, or although the
-- partition is paused. belfry.ack leaves such cursors. Both arrays name the cursors, ascending by
-- (partition, group). Returns the number of settled cursors. A wake must follow the commit.
--
-- Locks each cursor. It skips a cursor that another transaction has locked: that transaction leaves
-- ready_at correct, or in the past. It checks a cursor before the lock, so that it locks no cursor with
-- messages, and again after the lock, with a newer snapshot.
CREATE FUNCTION belfry.settle_drained(p_partitions bigint[], p_groups bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_settled bigint := 0;
    k record;
    v_at tid;
    v_paused boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR k IN
        SELECT w.partition_id, w.group_id FROM unnest(p_partitions, p_groups) AS w(partition_id, group_id) ORDER BY 1, 2
    LOOP
        SELECT p.paused INTO v_paused FROM belfry.partition p
         WHERE p.id >= k.partition_id AND p.id <= k.partition_id ORDER BY p.id DESC LIMIT 1;
        PERFORM c.group_id FROM belfry.cursor c
           JOIN (SELECT n.ctid AS at, n.ready_at
                   FROM belfry.cursor n
                  WHERE n.partition_id = k.partition_id AND n.group_id >= k.group_id AND n.group_id <= k.group_id
                  ORDER BY n.group_id DESC LIMIT 1) AS newest ON newest.at = c.ctid
          WHERE newest.ready_at <= statement_timestamp() AND coalesce(c.ready_at <= statement_timestamp(), false)
            AND (v_paused OR NOT EXISTS (
                SELECT 1 FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > c.committed
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip)))
            FOR NO KEY UPDATE OF c SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- These statements have newer snapshots than the lock.
        SELECT c.ctid INTO v_at
          FROM belfry.cursor c
         WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
         ORDER BY c.group_id DESC LIMIT 1;
        IF v_paused THEN
            UPDATE belfry.cursor c
               SET ready_at = NULL, lease_id = NULL, lease_until = NULL, lease_end = NULL
             WHERE c.ctid = v_at AND c.ready_at <= statement_timestamp();
            v_settled := v_settled + 1;
            CONTINUE;
        END IF;
        UPDATE belfry.cursor c
           SET committed = p.last_seq, skip = NULL, attempts = 0, failures = 0, retry_at = NULL, ready_at = NULL,
               lease_id = NULL, lease_until = NULL, lease_end = NULL
          FROM (SELECT p.last_seq
                  FROM belfry.partition p
                 WHERE p.id >= k.partition_id AND p.id <= k.partition_id
                 ORDER BY p.id DESC LIMIT 1) AS p
         WHERE c.ctid = v_at
           AND c.ready_at <= statement_timestamp() AND CASE WHEN c.redrives > 0 THEN belfry.redrives_ready_at(c.partition_id, c.group_id) > statement_timestamp() ELSE true END
           AND NOT EXISTS (
                SELECT 1 FROM belfry.message m
                 WHERE m.partition_id = k.partition_id AND m.seq > c.committed
                   AND (c.skip IS NULL OR NOT m.seq <@ c.skip));
        IF FOUND THEN
            v_settled := v_settled + 1;
        END IF;
    END LOOP;
    RETURN v_settled;
END $$;

-- From sql/functions/wake/wake_partitions.sql.

-- Sets ready_at of every cursor that needs a wake in p_partitions, and returns those cursors with the
-- seconds until they are ready. See store/wake. A cursor with a start_at moves past the messages before
-- that instant. The first message after that instant clears start_at.
--
-- It reads the newest version of the cursor of each group. In a queue with more than 1,000 groups, most
-- cursors are ready, so it reads only the index cursor_asleep, which contains every cursor that
-- needs_wake accepts. There it also reads old versions of cursors, which a held snapshot keeps.
--
-- Locks the cursors in (partition, group) order, and checks each cursor again under its lock. Its commit
-- does not wait for the disk.
CREATE FUNCTION belfry.wake_partitions(p_partitions bigint[])
RETURNS TABLE (group_id bigint, partition_id bigint, ready_in float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_committed bigint;
    h record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR h IN
        SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id, k.group_id, k.partition_id,
               k.last_seq, k.last_push_at, k.visible_until, k.delayed_processing, k.window_buffer
          FROM (SELECT w.id AS partition_id, c.id AS group_id, p.last_seq, p.last_push_at, p.visible_until,
                       q.delayed_processing, q.window_buffer
                  FROM unnest(p_partitions) AS w(id)
                 CROSS JOIN LATERAL (
                        SELECT p.queue_id, p.last_seq, p.last_push_at, p.visible_until, p.paused FROM belfry.partition p
                         WHERE p.id >= w.id AND p.id <= w.id ORDER BY p.id DESC LIMIT 1) AS p
                 CROSS JOIN LATERAL (SELECT q.delayed_processing, q.window_buffer FROM belfry.queue q WHERE q.id = p.queue_id OFFSET 0) AS q
                 CROSS JOIN LATERAL (
                        SELECT count(*) > 1000 AS many FROM (SELECT FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id LIMIT 1001) AS g) AS n
                 CROSS JOIN LATERAL (
                        SELECT g.id, c.ready_at, c.committed, c.redrives, c.lease_id
                          FROM (SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = p.queue_id AND NOT n.many OFFSET 0) AS g
                         CROSS JOIN LATERAL (
                                SELECT c.ready_at, c.committed, c.redrives, c.lease_id FROM belfry.cursor c
                                 WHERE c.partition_id = w.id AND c.group_id >= g.id AND c.group_id <= g.id ORDER BY c.group_id DESC LIMIT 1) AS c
                        UNION ALL
                        SELECT c.group_id, c.ready_at, c.committed, c.redrives, c.lease_id FROM belfry.cursor c
                         WHERE n.many AND c.partition_id = w.id AND (c.ready_at IS NULL OR c.redrives > 0)
                           AND EXISTS (SELECT FROM belfry.consumer_group g WHERE g.id = c.group_id AND g.queue_id = p.queue_id OFFSET 0)) AS c
                 WHERE NOT p.paused AND belfry.needs_wake(c.ready_at, c.committed, p.last_seq, c.redrives, c.lease_id)
                 ORDER BY 1, 2) AS k
         CROSS JOIN LATERAL (
                SELECT c.ctid, c.ready_at, c.committed, c.redrives, c.retry_at, c.start_at, c.lease_id FROM belfry.cursor c
                 WHERE c.partition_id = k.partition_id AND c.group_id >= k.group_id AND c.group_id <= k.group_id
                 ORDER BY c.group_id DESC LIMIT 1 FOR NO KEY UPDATE) AS c
    LOOP
        CONTINUE WHEN NOT belfry.needs_wake(h.ready_at, h.committed, h.last_seq, h.redrives, h.lease_id);
        IF h.ready_at IS NOT NULL AND h.start_at IS NULL THEN
            CONTINUE WHEN h.ready_at = belfry.ready_at(h.partition_id, h.committed, h.last_seq, h.last_push_at, h.visible_until,
                                                       h.delayed_processing, h.window_buffer, h.retry_at, h.redrives, h.group_id);
        END IF;
        v_committed := CASE WHEN h.start_at IS NULL THEN h.committed
                            WHEN h.last_push_at <= h.start_at THEN h.last_seq
                            ELSE greatest(h.committed, belfry.seq_at(h.partition_id, h.start_at)) END;
        UPDATE belfry.cursor c
           SET ready_at = belfry.ready_at(h.partition_id, v_committed, h.last_seq, h.last_push_at, h.visible_until,
                                          h.delayed_processing, h.window_buffer, h.retry_at, h.redrives, h.group_id),
               committed = v_committed,
               start_at = CASE WHEN v_committed >= h.last_seq THEN h.start_at END
         WHERE c.ctid = h.ctid
        RETURNING extract(epoch FROM c.ready_at - statement_timestamp())::float8 INTO ready_in;
        group_id := h.group_id;
        partition_id := h.partition_id;
        RETURN NEXT;
    END LOOP;
END $$;

-- From sql/schema/roles.sql.

-- Three roles without a login. An operator grants them to the roles that log in:
--
--   belfry_producer  Inserts into the inbox, and attaches its own tables.
--   belfry_consumer  Pops and acknowledges through functions, and reads no table.
--   belfry_admin     Has the rights of both, and reads and writes every table, but cannot change
--                    definitions. The server needs these rights if it does not own the schema.
--
-- Roles belong to the whole cluster, so a down migration keeps them. A migration that runs as a role
-- without CREATEROLE creates no roles and continues.
DO $$
DECLARE
    v_kind text;
    v_role name;
    v_grant text;
BEGIN
    FOREACH v_kind IN ARRAY ARRAY['producer', 'consumer', 'admin'] LOOP
        v_role := 'belfry_' || v_kind;
        BEGIN
            IF to_regrole(quote_ident(v_role)) IS NULL THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- a migration of another database of the cluster has just created the role
            WHEN insufficient_privilege THEN
                RAISE WARNING 'the role % was not created: % may not create roles', v_role, current_user
                    USING HINT = 'Everything else works without it. "belfry roles" prints the statements for a role with CREATEROLE.';
                CONTINUE;
        END;
        FOR v_grant IN SELECT g.text FROM belfry.role_grants(v_kind, v_role) AS g(text) LOOP
            EXECUTE v_grant;
        END LOOP;
    END LOOP;
END $$;
COMMENT ON FUNCTION belfry.baseline() IS 'f9cde8870400d37cde91f614061d32074c85191989aee0e7324e8a2a9d7a1c5e';
