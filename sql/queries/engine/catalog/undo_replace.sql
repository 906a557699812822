-- Marks earlier seeks of group $2 as replaced by the seek $1, and deletes their places. $3: the partition of the seek
-- (NULL: the whole queue). $4: the seek that $1 undoes (NULL: none), which keeps its places until the end of the undo. The
-- rows are locked in the order of their ids, so two seeks do not deadlock.
WITH replaced AS MATERIALIZED (
    SELECT u.audit_id FROM belfry.audit_undo u
     WHERE u.kind = 'places' AND u.replaced_by IS NULL AND u.undone_by IS NULL AND u.group_id = $2::bigint
       AND ($3::bigint IS NULL OR u.partition_id IS NULL OR u.partition_id = $3::bigint)
       AND u.audit_id <> $1::uuid AND u.audit_id IS DISTINCT FROM $4::uuid
     ORDER BY u.audit_id
       FOR UPDATE
), deleted AS (
    DELETE FROM belfry.audit_places p USING replaced r WHERE p.audit_id = r.audit_id
)
UPDATE belfry.audit_undo u SET replaced_by = $1::uuid FROM replaced r WHERE u.audit_id = r.audit_id
