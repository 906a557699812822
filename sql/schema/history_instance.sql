-- The figures of an instance in one minute, or their means in more of them after the roll-up. It has a
-- row whenever belfry.history has one of the instance.
CREATE TABLE belfry.history_instance (
    at          timestamptz NOT NULL,
    minutes     smallint NOT NULL CHECK (minutes IN (1, 15, 60, 360)),
    instance    uuid NOT NULL,
    hostname    text NOT NULL,
    port        bigint NOT NULL,
    pid         bigint NOT NULL,
    cpu_user    float8 NOT NULL, -- Percent of one core, as cpu_system.
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
