-- Stores the limits before ($4) and after ($5) a change, for an undo. $1 audit id, $2 kind, $3 queue id.
INSERT INTO belfry.audit_undo (audit_id, kind, queue_id, before, after)
VALUES ($1::uuid, $2::text, $3::bigint, $4::json, $5::json)
