-- Locks what the audit row $1 replaced. Returns no row if a later change replaced the row, or if it is undone.
SELECT u.audit_id FROM belfry.audit_undo u
 WHERE u.audit_id = $1::uuid AND u.replaced_by IS NULL AND u.undone_by IS NULL
   FOR UPDATE
