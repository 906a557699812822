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
