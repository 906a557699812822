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
