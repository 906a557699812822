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
