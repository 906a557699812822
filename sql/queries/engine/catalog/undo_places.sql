-- Stores the places of one transaction of the seek $1, and adds $5 to the number of its moved cursors. $2 queue id, $3 group id,
-- $4 partition id (NULL: the whole queue), $6 partitions, $7 places before, $8 places after, $9: the greatest number of cursors
-- whose places are stored.
WITH seek AS (
    INSERT INTO belfry.audit_undo AS u (audit_id, kind, queue_id, group_id, partition_id, moved)
    VALUES ($1::uuid, 'places', $2::bigint, $3::bigint, $4::bigint, $5::bigint)
    ON CONFLICT (audit_id) DO UPDATE SET moved = u.moved + excluded.moved
    RETURNING u.moved
), deleted AS (
    DELETE FROM belfry.audit_places p WHERE p.audit_id = $1::uuid AND (SELECT s.moved FROM seek s) > $9::bigint
)
INSERT INTO belfry.audit_places (audit_id, first, partitions, before, after)
SELECT $1::uuid, ($6::bigint[])[1], $6::bigint[], $7::bigint[], $8::bigint[] FROM seek s WHERE s.moved <= $9::bigint
