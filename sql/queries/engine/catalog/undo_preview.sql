-- Counts what the undo of the seek $1 of group $3 does in the next row of its places, after the first partition $2. See
-- belfry.seek_cursors for the position after an undo. gone: partitions without a cursor of the group. Messages are counted as
-- differences of positions.
SELECT l.first,
       count(*) FILTER (WHERE t.place < t.committed) AS back, count(*) FILTER (WHERE t.place > t.committed) AS forward,
       count(*) FILTER (WHERE t.place IS NULL) AS gone,
       coalesce(sum(t.committed - t.place) FILTER (WHERE t.place < t.committed), 0)::bigint AS again,
       coalesce(sum(t.place - t.committed) FILTER (WHERE t.place > t.committed), 0)::bigint AS skipped,
       count(*) FILTER (WHERE t.leased) AS leases
  FROM (SELECT p.first, p.partitions, p.before, p.after
          FROM belfry.audit_places p
         WHERE p.audit_id = $1::uuid AND p.first > $2::bigint
         ORDER BY p.first
         LIMIT 1) AS l
 CROSS JOIN LATERAL (
        SELECT c.committed, greatest(p.trimmed, u.before, CASE WHEN u.before >= u.after THEN c.committed END)
                   + CASE WHEN p.id IS NULL OR c.committed IS NULL THEN NULL ELSE 0 END AS place,
               c.lease_until > statement_timestamp() AS leased
          FROM unnest(l.partitions, l.before, l.after) AS u(id, before, after)
          LEFT JOIN LATERAL (
                SELECT p.id, p.trimmed FROM belfry.partition p
                 WHERE p.id >= u.id AND p.id <= u.id AND NOT p.closed ORDER BY p.id DESC LIMIT 1) AS p ON true
          LEFT JOIN LATERAL (
                SELECT c.committed, c.lease_until FROM belfry.cursor c
                 WHERE c.partition_id = u.id AND c.group_id >= $3::bigint AND c.group_id <= $3::bigint
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true) AS t
 GROUP BY l.first
