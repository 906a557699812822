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
