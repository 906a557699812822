-- Reads the audit row $1 with what it replaced (kind is NULL: nothing is stored), and whether the queue, the group and the partition
-- still exist. now is the state of the queue, group or partition that a pause names. A group or partition that the change did not name exists.
SELECT a.action, a.queue, a.partition, a.consumer_group, u.kind, u.queue_id, u.group_id, u.partition_id, u.before, u.after,
       u.moved, u.replaced_by, u.undone_by, belfry.epoch() AS epoch,
       EXISTS (SELECT FROM belfry.queue q WHERE q.id = u.queue_id AND q.deleted_at IS NULL) AS queue_exists,
       u.group_id IS NULL OR EXISTS (SELECT FROM belfry.consumer_group g WHERE g.id = u.group_id AND NOT g.kept) AS group_exists,
       u.partition_id IS NULL OR EXISTS (SELECT FROM belfry.partition p WHERE p.id = u.partition_id AND NOT p.closed) AS partition_exists,
       CASE WHEN u.partition_id IS NOT NULL THEN (
                 SELECT json_build_object('paused', p.paused, 'reason', p.pause_reason) FROM belfry.partition p WHERE p.id = u.partition_id)
            WHEN u.group_id IS NOT NULL THEN (
                 SELECT json_build_object('paused', g.paused, 'reason', g.pause_reason) FROM belfry.consumer_group g WHERE g.id = u.group_id)
            ELSE (SELECT json_build_object('paused', q.paused, 'reason', q.pause_reason) FROM belfry.queue q WHERE q.id = u.queue_id) END AS now
  FROM belfry.audit a
  LEFT JOIN belfry.audit_undo u ON u.audit_id = a.id
 WHERE a.id = $1::uuid
