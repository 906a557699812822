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
