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
