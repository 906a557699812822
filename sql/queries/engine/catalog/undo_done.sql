-- Marks the change $1 as undone by the audit row $2, and deletes its places. Changes no row if it is undone or replaced.
WITH deleted AS (
    DELETE FROM belfry.audit_places p WHERE p.audit_id = $1::uuid
)
UPDATE belfry.audit_undo u SET undone_by = $2::uuid
 WHERE u.audit_id = $1::uuid AND u.replaced_by IS NULL AND u.undone_by IS NULL
