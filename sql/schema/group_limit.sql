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
