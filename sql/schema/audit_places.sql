-- The positions of cursors before and after a seek: one row for each transaction of the seek. Only the latest seek of a
-- cursor has its positions here, so the table has at most a few numbers for each cursor.
CREATE TABLE belfry.audit_places (
    audit_id   uuid NOT NULL REFERENCES belfry.audit_undo (audit_id) ON DELETE CASCADE,
    first      bigint NOT NULL, -- The first of partitions, which ascend.
    partitions bigint[] NOT NULL,
    before     bigint[] NOT NULL,
    after      bigint[] NOT NULL,
    PRIMARY KEY (audit_id, first)
);
