-- What the whole queue needs of a cursor and a partition (the migrations after
-- this one use it), and the rule of ready_at with it.

ALTER TABLE belfry.cursor
    -- No pop gets the first message after committed before this instant; a failed
    -- ack set it. It means nothing once it has passed or the cursor has moved.
    ADD COLUMN retry_at timestamptz,
    -- Up to this seq messages are delivered one by one (maxDeliveries).
    ADD COLUMN alone_until bigint,
    -- Messages the cursor passed over because they were too old.
    ADD COLUMN expired bigint NOT NULL DEFAULT 0,
    -- Set while the group's subscription starts in the future: what is stored up
    -- to then is not for it. A wake moves the cursor over that, and clears it when
    -- it finds the first message behind; ready_at is NULL until then.
    ADD COLUMN start_at timestamptz,
    -- How many rows of belfry.redrive belong to the cursor; NULL: none. A negative
    -- lease_end says that the lease is that of a redelivery, with so many messages
    -- that are not settled yet.
    ADD COLUMN redrives integer;

ALTER TABLE belfry.partition
    -- Every message up to this seq is gone.
    ADD COLUMN trimmed bigint NOT NULL DEFAULT 0,
    -- Messages above trimmed that are gone all the same. What is stored is
    -- last_seq - trimmed - holes, always.
    ADD COLUMN holes bigint NOT NULL DEFAULT 0;

-- THE rule of ready_at for a cursor without a live lease, in place of that of
-- migration 000001: NULL when nothing is left or it is paused; now when messages
-- were redriven or the head is poppable, else the instant it becomes so. The body
-- is one expression, so the planner inlines it.
CREATE FUNCTION belfry.ready_at(
    partition_id bigint, committed bigint, last_seq bigint, last_push_at timestamptz, visible_until timestamptz,
    delay_seconds bigint, window_seconds bigint, paused boolean, retry_at timestamptz, redrives integer
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN $8 THEN NULL
        WHEN $10 > 0 THEN statement_timestamp()
        WHEN $3 <= $2 THEN NULL
        WHEN $6 = 0 AND $7 = 0 AND ($5 IS NULL OR $5 <= statement_timestamp()) THEN greatest(statement_timestamp(), $9)
        ELSE greatest(belfry.due_at($1, $2, $4, $6, $7), $9)
    END
$$;
