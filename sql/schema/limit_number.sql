-- The numbers of the rows of belfry.limit_slot (kind 1) and belfry.limit_bucket (kind 2). Those tables have no unique index,
-- and rows here never change, so that a unique index is cheap. An insert with a snapshot from before the first insert of the number
-- fails with 40001. belfry.new_limit_row inserts.
CREATE TABLE belfry.limit_number (
    group_id  bigint NOT NULL,
    tenant_id bigint NOT NULL,
    kind      smallint NOT NULL,
    number    bigint NOT NULL,
    PRIMARY KEY (group_id, tenant_id, kind, number)
);
