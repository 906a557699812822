-- The outcomes of the messages of a group with a breaker. A group has up to eight rows. A transaction counts in a row
-- that no other transaction has locked, so acks do not wait for each other. The sum of the rows is the count;
-- see belfry.count_outcomes.
CREATE TABLE belfry.breaker_count (
    group_id         bigint NOT NULL,
    part             bigint NOT NULL,
    -- The number of the window since 1970, and its outcomes. The columns before_ have the outcomes of the window before.
    window_number    bigint NOT NULL,
    completed        bigint NOT NULL,
    failed           bigint NOT NULL,
    before_completed bigint NOT NULL,
    before_failed    bigint NOT NULL,
    -- The failures in a row that this row knows, and the instants of the first and the last of them.
    run              bigint NOT NULL,
    run_began        timestamptz NOT NULL,
    run_last         timestamptz NOT NULL,
    last_success     timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false);
-- Not unique: each update would examine every version of the key. An advisory lock guards the insert.
CREATE INDEX breaker_count_place ON belfry.breaker_count (group_id, part);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.breaker_count REPLICA IDENTITY FULL;
