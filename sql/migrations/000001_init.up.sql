-- The engine's tables. What each row means, and which invariant each lock
-- protects, is told in pkg/store/doc.go.

CREATE SCHEMA IF NOT EXISTS belfry;

-- A queue and its fifteen options (wire contract, section 5).
CREATE TABLE belfry.queue (
    id                          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid                         uuid NOT NULL DEFAULT gen_random_uuid(),
    name                        text NOT NULL CHECK (octet_length(name) <= 255),
    namespace                   text NOT NULL DEFAULT '',
    task                        text NOT NULL DEFAULT '',
    lease_time                  bigint NOT NULL DEFAULT 300,
    retry_limit                 bigint NOT NULL DEFAULT 3,
    delayed_processing          bigint NOT NULL DEFAULT 0,
    window_buffer               bigint NOT NULL DEFAULT 0,
    encryption_enabled          boolean NOT NULL DEFAULT false,
    retention_enabled           boolean NOT NULL DEFAULT false,
    retention_seconds           bigint NOT NULL DEFAULT 0,
    completed_retention_seconds bigint NOT NULL DEFAULT 0,
    max_wait_time_seconds       bigint NOT NULL DEFAULT 0,
    max_size                    bigint NOT NULL DEFAULT 0,
    priority                    bigint NOT NULL DEFAULT 0,
    retry_delay                 bigint NOT NULL DEFAULT 1000,
    ttl                         bigint NOT NULL DEFAULT 3600,
    dead_letter_queue           boolean NOT NULL DEFAULT false,
    dlq_after_max_retries       boolean NOT NULL DEFAULT false,
    paused                      boolean NOT NULL DEFAULT false,
    created_at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set when deletion begins: the name is free again at once, the rows
    -- underneath go in small transactions.
    deleted_at                  timestamptz
);
CREATE UNIQUE INDEX queue_name ON belfry.queue (name) WHERE deleted_at IS NULL;
CREATE INDEX queue_tags ON belfry.queue (namespace, task) WHERE deleted_at IS NULL;
CREATE INDEX queue_deleted ON belfry.queue (id) WHERE deleted_at IS NOT NULL;

-- A lane. Pushes lock this row and nothing else; last_seq is not indexed, so
-- every push is a HOT update.
CREATE TABLE belfry.partition (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id      bigint NOT NULL REFERENCES belfry.queue (id),
    last_seq      bigint NOT NULL DEFAULT 0,
    last_push_at  timestamptz,
    -- The latest visible_at ever pushed here: past it, no head needs a probe.
    visible_until timestamptz,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    uid           uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE,
    -- Its queue is being deleted: nothing may be pushed any more.
    closed        boolean NOT NULL DEFAULT false,
    name          text NOT NULL CHECK (octet_length(name) <= 255),
    UNIQUE (queue_id, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- The log. No foreign keys: they would cost a probe and a share lock a row,
-- and the partition's row lock already guards what they would.
CREATE TABLE belfry.message (
    partition_id   bigint NOT NULL,
    seq            bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    visible_at     timestamptz,
    id             uuid NOT NULL,
    trace_id       uuid,
    encrypted      boolean NOT NULL DEFAULT false,
    transaction_id text NOT NULL,
    producer_sub   text,
    payload        json NOT NULL,
    PRIMARY KEY (partition_id, seq),
    UNIQUE (partition_id, transaction_id)
);

-- A consumer group of one queue. whole_queue says that it has a cursor in
-- every partition; without it, only in those it popped by name.
CREATE TABLE belfry.consumer_group (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id    bigint NOT NULL REFERENCES belfry.queue (id),
    name        text NOT NULL CHECK (octet_length(name) <= 255),
    mode        text NOT NULL DEFAULT 'all' CHECK (mode IN ('all', 'new', 'timestamp')),
    start_at    timestamptz,
    whole_queue boolean NOT NULL DEFAULT false,
    paused      boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (queue_id, name)
);

-- A group's place in a partition.
CREATE TABLE belfry.cursor (
    partition_id bigint NOT NULL,
    group_id     bigint NOT NULL,
    -- Everything up to this seq is done for the group.
    committed    bigint NOT NULL DEFAULT 0,
    -- The earliest instant a pop could return something; NULL: nothing here.
    ready_at     timestamptz,
    lease_until  timestamptz,
    -- The last seq the lease covers.
    lease_end    bigint,
    lease_id     uuid,
    -- Deliveries and failed acks of the first message after committed.
    attempts     integer NOT NULL DEFAULT 0,
    failures     integer NOT NULL DEFAULT 0,
    consumed     bigint NOT NULL DEFAULT 0,
    consumed_at  timestamptz,
    -- Dead-lettered seqs above committed; NULL: none.
    skip         bigint[],
    PRIMARY KEY (partition_id, group_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX cursor_ready ON belfry.cursor (group_id, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX cursor_lease ON belfry.cursor (lease_id) WHERE lease_id IS NOT NULL;

-- A parked message; the message row stays in its log.
CREATE TABLE belfry.dead_letter (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    group_id     bigint NOT NULL,
    attempts     integer NOT NULL,
    failed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    error        text,
    UNIQUE (partition_id, group_id, seq)
);

-- When the head of a partition becomes poppable, for queues with a delay or a
-- window and partitions with delayed messages.
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
          ORDER BY m.seq
          LIMIT 1))
$$;

-- THE rule of ready_at for a cursor without a live lease: NULL when nothing is
-- left or it is paused, now when the head is poppable, else the instant it
-- becomes so. The body is one expression, so the planner inlines it.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, paused boolean
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN $8 OR $3 <= $2 THEN NULL
        WHEN $6 = 0 AND $7 = 0 AND ($5 IS NULL OR $5 <= statement_timestamp()) THEN statement_timestamp()
        ELSE belfry.due_at($1, $2, $4, $6, $7)
    END
$$;

-- The last seq of a partition that was stored at or before an instant: the
-- place a group starts from, or seeks to. created_at never falls within a
-- partition, so it is a binary search; a hole in the log is no matter.
CREATE FUNCTION belfry.seq_at(p_partition bigint, p_instant timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    lo bigint := 0;
    hi bigint;
    mid bigint;
    found_seq bigint;
    found_at timestamptz;
BEGIN
    SELECT last_seq INTO hi FROM belfry.partition WHERE id = p_partition;
    WHILE lo < hi LOOP
        mid := (lo + hi + 1) / 2;
        SELECT m.seq, m.created_at INTO found_seq, found_at
          FROM belfry.message m
         WHERE m.partition_id = p_partition AND m.seq > lo AND m.seq <= mid
         ORDER BY m.seq DESC
         LIMIT 1;
        IF found_seq IS NULL OR found_at <= p_instant THEN
            lo := mid;
        ELSE
            hi := found_seq - 1;
        END IF;
    END LOOP;
    RETURN lo;
END $$;

-- Raised inside a push that remembers a partition wrongly (it is gone, closing,
-- or its queue began to seal): the caller looks the names up again and repeats
-- the push.
CREATE FUNCTION belfry.raise_partition_gone() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a partition of this push is gone' USING ERRCODE = 'BF001';
END $$;

-- Finds or creates queues and partitions by name. The share lock on the queue
-- row and the update lock of join_group exclude each other, so a partition and
-- a group born at the same time never miss each other's cursor. Names that
-- belong to a queue being deleted at this instant are absent from the result;
-- the caller asks again.
CREATE FUNCTION belfry.open_partitions(
    p_queues text[], p_partitions text[], p_lease_time bigint, p_retry_limit bigint
) RETURNS TABLE (
    queue_name text, partition_name text, queue_id bigint, partition_id bigint, partition_uid uuid, sealed boolean
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO belfry.queue (name, namespace, task, lease_time, retry_limit)
    SELECT DISTINCT w.name, split_part(w.name, '.', 1), split_part(w.name, '.', 2), p_lease_time, p_retry_limit
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

        WITH born AS (
            INSERT INTO belfry.partition (queue_id, name)
            SELECT DISTINCT q.id, w.partition
              FROM unnest(p_queues, p_partitions) AS w(queue, partition)
             CROSS JOIN LATERAL (
                    SELECT q.id FROM belfry.queue q WHERE q.name = w.queue AND q.deleted_at IS NULL OFFSET 0) AS q
             WHERE (SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = w.partition) IS NULL
             ORDER BY 1, 2
            ON CONFLICT (queue_id, name) DO NOTHING
            RETURNING id, queue_id
        )
        INSERT INTO belfry.cursor (partition_id, group_id)
        SELECT born.id, g.id
          FROM born
         CROSS JOIN LATERAL (
                SELECT g.id FROM belfry.consumer_group g WHERE g.queue_id = born.queue_id AND g.whole_queue OFFSET 0) AS g;
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

-- Registers a consumer group at its first pop and gives it the cursors it
-- lacks: in every partition, or in the named one. What is stored first wins;
-- later wishes for another start are ignored. Returns no row for an unknown
-- queue. New cursors may have missed a push that was committing meanwhile: the
-- caller runs wake_group after the commit.
CREATE FUNCTION belfry.join_group(
    p_queue text, p_group text, p_partition text, p_mode text, p_start timestamptz
) RETURNS TABLE (queue_id bigint, group_id bigint, cursors_made bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_queue belfry.queue;
    v_group belfry.consumer_group;
    v_made bigint := 0;
BEGIN
    SELECT q.* INTO v_queue FROM belfry.queue q
     WHERE q.name = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    INSERT INTO belfry.consumer_group (queue_id, name, mode, start_at, whole_queue)
    VALUES (v_queue.id, p_group, p_mode,
            CASE p_mode WHEN 'new' THEN clock_timestamp() WHEN 'timestamp' THEN p_start END,
            p_partition IS NULL)
    ON CONFLICT (queue_id, name) DO NOTHING;
    SELECT g.* INTO v_group FROM belfry.consumer_group g WHERE g.queue_id = v_queue.id AND g.name = p_group;

    IF p_partition IS NULL AND NOT v_group.whole_queue THEN
        UPDATE belfry.consumer_group g
           SET whole_queue = true, mode = p_mode,
               start_at = CASE p_mode WHEN 'new' THEN clock_timestamp() WHEN 'timestamp' THEN p_start END
         WHERE g.id = v_group.id
        RETURNING g.* INTO v_group;
    END IF;

    INSERT INTO belfry.cursor (partition_id, group_id, committed, ready_at)
    SELECT s.id, v_group.id, s.committed,
           belfry.ready_at(s.id, s.committed, s.last_seq, s.last_push_at, s.visible_until,
                           v_queue.delayed_processing, v_queue.window_buffer, v_queue.paused OR v_group.paused)
      FROM (SELECT p.id, p.last_seq, p.last_push_at, p.visible_until,
                   CASE CASE WHEN v_group.whole_queue THEN v_group.mode ELSE p_mode END
                        WHEN 'new' THEN p.last_seq
                        WHEN 'timestamp' THEN belfry.seq_at(p.id, CASE WHEN v_group.whole_queue THEN v_group.start_at ELSE p_start END)
                        ELSE 0
                   END AS committed
              FROM belfry.partition p
             WHERE p.queue_id = v_queue.id AND (p_partition IS NULL OR p.name = p_partition)
               AND (SELECT c.group_id FROM belfry.cursor c
                     WHERE c.partition_id = p.id AND c.group_id = v_group.id) IS NULL
            OFFSET 0) s;
    GET DIAGNOSTICS v_made = ROW_COUNT;
    RETURN QUERY SELECT v_queue.id, v_group.id, v_made;
END $$;
