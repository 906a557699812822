-- Lists partitions of queue $1 with the unfinished messages of its groups. If $2 is true, lists the
-- partitions with the oldest unfinished messages. Otherwise lists partitions by name from $3 on. $4:
-- leave out the partition $3 itself. $5: partitions at most. $6: only the group of this name (NULL:
-- any). $7: groups at most. $8: dead letters of each partition at most.
--
-- If $2 is true, it examines for each group the due cursors with the earliest ready_at. It also examines
-- the cursors whose ready_at is next, because a lease or a retry delay may end soon. The partition with
-- the oldest unfinished message is first.
--
-- lag, age and failures are the largest values of all groups. leased and resting are true if they are
-- true for a group. group_name is the group with the oldest message. Without a cursor, every stored
-- message is unfinished.
WITH reader AS MATERIALIZED (
    SELECT g.id, g.name
      FROM belfry.consumer_group g
     WHERE g.queue_id = $1::bigint AND g.name >= coalesce($6::text, '') AND ($6::text IS NULL OR g.name = $6::text)
     ORDER BY g.name
     LIMIT $7::bigint
), share AS MATERIALIZED (
    SELECT greatest($5::bigint / (2 * greatest(count(*), 1)), 10) AS n FROM reader
), chosen AS MATERIALIZED (
    SELECT p.id
      FROM (SELECT p.id
              FROM belfry.partition p
             WHERE NOT $2::boolean AND p.queue_id = $1::bigint AND p.name >= $3::text AND NOT ($4::boolean AND p.name = $3::text)
               AND NOT p.closed
             ORDER BY p.name
             LIMIT $5::bigint) AS p
    UNION
    SELECT w.partition_id
      FROM reader g
     CROSS JOIN LATERAL (
            SELECT d.partition_id
              FROM (SELECT c.partition_id FROM belfry.cursor c
                     WHERE $2::boolean AND c.group_id = g.id AND c.ready_at <= statement_timestamp()
                     ORDER BY c.ready_at
                     LIMIT (SELECT s.n FROM share s)) AS d
            UNION ALL
            SELECT n.partition_id
              FROM (SELECT c.partition_id FROM belfry.cursor c
                     WHERE $2::boolean AND c.group_id = g.id AND c.ready_at > statement_timestamp()
                     ORDER BY c.ready_at
                     LIMIT (SELECT s.n FROM share s)) AS n) AS w
)
SELECT p.name, p.uid, p.paused, p.last_push_at, p.last_seq - p.trimmed - p.holes AS stored,
       coalesce(f.lag, p.last_seq - p.trimmed - p.holes) AS lag, coalesce(f.age, oldest.age, 0)::float8 AS age, coalesce(f.failures, 0) AS failures,
       coalesce(f.leased, false) AS leased, coalesce(f.resting, false) AS resting, f.group_name, dead.n AS dead
  FROM chosen k
 CROSS JOIN LATERAL (
        SELECT p.id, p.name, p.uid, p.paused, p.last_push_at, p.last_seq, p.trimmed, p.holes, p.closed
          FROM belfry.partition p
         WHERE p.id >= k.id AND p.id <= k.id
         ORDER BY p.id DESC
         LIMIT 1) AS p
 CROSS JOIN LATERAL (
        SELECT max(s.lag) AS lag, max(s.age) AS age, max(s.failures) AS failures, bool_or(s.live) AS leased,
               bool_or(NOT s.live AND s.ready_at > statement_timestamp()) AS resting,
               (array_agg(s.name ORDER BY s.age DESC NULLS LAST, s.lag DESC))[1] AS group_name
          FROM (SELECT g.name, c.failures, c.live, c.ready_at,
                       coalesce(p.last_seq - head.seq + 1 - coalesce(belfry.skipped_after(c.skip, head.seq), 0), 0)
                       + coalesce(c.redrives, 0) AS lag,
                       extract(epoch FROM statement_timestamp() - least(head.created_at, put.created_at)) AS age
                  FROM reader g
                 CROSS JOIN LATERAL (
                        SELECT c.committed, c.skip, c.redrives, c.failures, c.ready_at, coalesce(c.lease_until > statement_timestamp(), false) AS live
                          FROM belfry.cursor c
                         WHERE c.partition_id = p.id AND c.group_id >= g.id AND c.group_id <= g.id
                         ORDER BY c.group_id DESC
                         LIMIT 1) AS c
                  LEFT JOIN LATERAL (
                        SELECT m.seq, m.created_at FROM belfry.message m
                         WHERE c.committed < p.last_seq AND m.partition_id = p.id AND m.seq > c.committed
                           AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
                         ORDER BY m.seq
                         LIMIT 1) AS head ON true
                  LEFT JOIN LATERAL (
                        SELECT (SELECT m.created_at FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq) AS created_at
                          FROM belfry.redrive r
                         WHERE c.redrives > 0 AND r.partition_id = p.id AND r.group_id = g.id
                         ORDER BY r.seq
                         LIMIT 1) AS put ON true) AS s) AS f
  LEFT JOIN LATERAL (
        SELECT extract(epoch FROM statement_timestamp() - m.created_at) AS age
          FROM belfry.message m
         WHERE f.lag IS NULL AND m.partition_id = p.id AND m.seq > p.trimmed
         ORDER BY m.seq
         LIMIT 1) AS oldest ON true
 CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (SELECT d.seq FROM belfry.dead_letter d WHERE d.partition_id = p.id LIMIT $8::bigint) AS d) AS dead
 WHERE NOT p.closed
 ORDER BY CASE WHEN $2::boolean THEN coalesce(f.age, oldest.age, 0) END DESC, p.name
 LIMIT $5::bigint
