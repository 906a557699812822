-- Stores the old and the new values of a change of options or of a pause. $1 audit id, $2 kind, $3 queue id, $4 group id
-- (NULL: none), $5 partition id (NULL: none), $6 values before, $7 values after.
INSERT INTO belfry.audit_undo (audit_id, kind, queue_id, group_id, partition_id, before, after)
VALUES ($1::uuid, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::json, $7::json)
