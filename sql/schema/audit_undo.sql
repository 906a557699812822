-- The old values of a change of an operator, so that the change can be undone: at most one row for each row of
-- belfry.audit. A change that changed nothing has no row. See pkg/engine/catalog/undo.go.
CREATE TABLE belfry.audit_undo (
    audit_id     uuid PRIMARY KEY REFERENCES belfry.audit (id) ON DELETE CASCADE,
    kind         text NOT NULL CHECK (kind IN ('options', 'pause', 'places', 'limits')),
    queue_id     bigint NOT NULL,
    group_id     bigint,
    partition_id bigint,
    -- The values before and after the change, by name. places: NULL, because belfry.audit_places has them.
    before       json,
    after        json,
    -- places: the number of moved cursors. If it is too large, no places are stored.
    moved        bigint NOT NULL DEFAULT 0,
    -- The audit row of a later seek of the same cursors. Its transaction deletes the places of this row.
    replaced_by  uuid,
    -- The audit row of the undo.
    undone_by    uuid
);
CREATE INDEX audit_undo_places ON belfry.audit_undo (group_id, partition_id) WHERE kind = 'places' AND replaced_by IS NULL AND undone_by IS NULL;
