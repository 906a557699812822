-- Does the same as ack_apply.sql for a transaction with required leases: it also locks the cursors with
-- the leases $12. $1 to $11, and $13 and $14, are the parameters of ack_apply.sql.
SELECT a.item, a.entry, a.verdict, a.cursor_index, a.partition_id, a.group_id, a.lease_before, a.ended_by, a.ready_at, a.ready_in, a.needs_wake,
       a.gives_room
  FROM (SELECT array_agg(l.partition_id) AS partitions, array_agg(l.uid) AS uids, array_agg(l.name) AS groups
          FROM (SELECT c.partition_id, p.uid, g.name
                  FROM unnest($12::uuid[]) AS l(id)
                 CROSS JOIN LATERAL (
                        SELECT c.partition_id, c.group_id FROM belfry.cursor c WHERE c.lease_id = l.id OFFSET 0) AS c
                 CROSS JOIN LATERAL (
                        SELECT p.uid FROM belfry.partition p
                         WHERE p.id >= c.partition_id AND p.id <= c.partition_id
                         ORDER BY p.id DESC
                         LIMIT 1) AS p
                 CROSS JOIN LATERAL (SELECT g.name FROM belfry.consumer_group g WHERE g.id = c.group_id OFFSET 0) AS g
                EXCEPT
                SELECT w.partition_id, w.uid, w.name FROM unnest($1::bigint[], $2::uuid[], $3::text[]) AS w(partition_id, uid, name)) AS l
       ) AS more
 CROSS JOIN LATERAL belfry.apply_acks($1::bigint[] || more.partitions, $2::uuid[] || more.uids, $3::text[] || more.groups, $4::integer[],
                         $5::integer[], $6::bigint[], $7::uuid[], $8::smallint[], $9::bytea[], $10::bigint[], $11::text, false, false,
                         $13::text[], $14::text) AS a
