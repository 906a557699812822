-- Reads the breaker of the group $2 in the queue $1. probing is true if a probe is live.
SELECT belfry.has_breaker(g.limits_id) AS configured, b.opened_at,
       coalesce(belfry.breaker_until(g.id, g.limits_id, statement_timestamp()), b.open_until) AS until,
       coalesce(c.lease_until > statement_timestamp(), false) AS probing, coalesce(b.openings, 0) AS openings, b.opened_by, b.reason,
       coalesce(n.run, 0) AS run, coalesce(n.completed, 0)::bigint AS completed, coalesce(n.failed, 0)::bigint AS failed,
       statement_timestamp() AS now
  FROM belfry.consumer_group g
  JOIN belfry.queue q ON q.id = g.queue_id
  LEFT JOIN belfry.group_limit l ON l.id = g.limits_id
  LEFT JOIN belfry.breaker b ON b.group_id = g.id AND b.opened_at IS NOT NULL
  LEFT JOIN belfry.cursor c ON c.partition_id = b.probe_partition AND c.group_id = g.id AND c.lease_id = b.probe_lease
 CROSS JOIN LATERAL belfry.judge_count(g.id, coalesce(l.breaker_window, interval '1 minute'), statement_timestamp()) AS n
 WHERE q.name = $1::text AND q.deleted_at IS NULL AND g.name = $2::text
