-- A token bucket of a group with a rate, or one of several parts of it. Each part has its share of the rate and
-- of the burst, so the sum of the parts is the limit, and claims that run at the same time use different parts.
-- belfry.take_tokens has the arithmetic. A claim makes missing rows.
CREATE TABLE belfry.limit_bucket (
    group_id  bigint NOT NULL,
    tenant_id bigint NOT NULL DEFAULT 0, -- 0: the row counts for the whole group.
    part      bigint NOT NULL,
    -- The instant at which the part is full again, if nothing takes tokens meanwhile.
    full_at   timestamptz NOT NULL,
    taken_at  timestamptz NOT NULL -- The instant of the last take.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        vacuum_truncate = false);
-- Not unique: each update would examine every version of the key. An advisory lock guards the insert.
CREATE INDEX limit_bucket_place ON belfry.limit_bucket (group_id, tenant_id, part);
-- A publication FOR ALL TABLES needs a replica identity for updates.
ALTER TABLE belfry.limit_bucket REPLICA IDENTITY FULL;
