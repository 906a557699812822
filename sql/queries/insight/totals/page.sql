-- Counts the messages of a page of partitions by queue, and by queue and group, in one snapshot. $1: partitions above this id. $2:
-- partitions at most. In the first row, at is the instant and upto the last partition of the page (NULL: it is the last page). The
-- other rows have a queue, a queue and a group, or a group with its dead letters.
--
-- The messages of a queue are counted as by belfry.partition_counts, and those of a group as by insight/stats/group_lag. It reads
-- the rows of the partitions, cursors and dead letters. Of the messages it reads the first unfinished one of each cursor that is
-- behind, and the first one of each partition without a cursor. The column held counts the messages under live leases. The column
-- dead counts messages in the row of a queue, and dead letters in that of a group. due_at is the oldest message of the cursors that
-- are due or leased.
WITH page AS MATERIALIZED (
    SELECT p.id, p.queue_id, p.last_seq, p.trimmed, p.closed, p.last_seq - p.trimmed - p.holes AS total
      FROM belfry.partition p
     WHERE p.id > $1::bigint
     ORDER BY p.id
     LIMIT $2::bigint
), letter AS MATERIALIZED (
    SELECT d.partition_id, d.group_id
      FROM (SELECT min(p.id) AS low, max(p.id) AS high FROM page p) AS s
     CROSS JOIN LATERAL (
            SELECT d.partition_id, d.group_id FROM belfry.dead_letter d
             WHERE d.partition_id >= s.low AND d.partition_id <= s.high OFFSET 0) AS d
), part AS MATERIALIZED (
    SELECT p.id, p.queue_id, p.last_seq, p.trimmed, p.total, d.seqs, greatest(p.total - d.n, 0) AS alive
      FROM (SELECT p.id, p.queue_id, p.last_seq, p.trimmed, p.total, p.id IN (SELECT l.partition_id FROM letter l) AS lettered
              FROM page p
             WHERE NOT p.closed) AS p
     CROSS JOIN LATERAL (
            SELECT range_agg(int8range(d.seq, d.seq + 1)) AS seqs, count(DISTINCT d.seq) AS n FROM belfry.dead_letter d
             WHERE p.lettered AND d.partition_id = p.id AND d.seq > p.trimmed OFFSET 0) AS d
), place AS MATERIALIZED (
    SELECT p.queue_id, p.id, p.total, p.alive, c.group_id, c.live, c.failures > 0 AS fails, c.held, c.ready_at, c.consumed_at,
           p.last_seq - c.place + c.redriven
           - CASE WHEN c.gaps IS NULL OR upper(c.gaps) <= c.place + 1 THEN 0 ELSE belfry.skipped_after(c.gaps, c.place) END AS remaining,
           p.last_seq - c.leased + c.redriven
           - CASE WHEN c.gaps IS NULL OR upper(c.gaps) <= c.leased + 1 THEN 0 ELSE belfry.skipped_after(c.gaps, c.leased) END AS waiting,
           coalesce(p.last_seq - head.seq + 1 - CASE WHEN c.skip IS NULL THEN 0 ELSE belfry.skipped_after(c.skip, head.seq) END, 0) + c.redriven AS lag,
           least(head.created_at, put.created_at) AS oldest_at
      FROM part p
      LEFT JOIN LATERAL (
            SELECT c.group_id, c.committed, greatest(c.committed, p.trimmed) AS place, c.skip, c.failures, c.ready_at, c.consumed_at,
                   coalesce(c.skip + p.seqs, c.skip, p.seqs) AS gaps, coalesce(c.redrives, 0) AS redriven, coalesce(c.lease_until > statement_timestamp(), false) AS live,
                   greatest(c.committed, p.trimmed, CASE WHEN c.lease_until > statement_timestamp() THEN c.lease_end END) AS leased,
                   CASE WHEN NOT coalesce(c.lease_until > statement_timestamp(), false) THEN 0
                        WHEN c.lease_end < 0 THEN -c.lease_end
                        ELSE greatest(c.lease_end - c.committed, 0) END AS held
              FROM belfry.cursor c
             WHERE c.partition_id = p.id OFFSET 0) AS c ON true
      LEFT JOIN LATERAL (
            SELECT m.seq, m.created_at FROM belfry.message m
             WHERE coalesce(c.committed, p.trimmed) < p.last_seq AND m.partition_id = p.id AND m.seq > coalesce(c.committed, p.trimmed)
               AND (c.skip IS NULL OR NOT m.seq <@ c.skip)
             ORDER BY m.seq
             LIMIT 1) AS head ON true
      LEFT JOIN LATERAL (
            SELECT (SELECT m.created_at FROM belfry.message m WHERE m.partition_id = r.partition_id AND m.seq = r.seq) AS created_at
              FROM belfry.redrive r
             WHERE c.redriven > 0 AND r.partition_id = p.id AND r.group_id = c.group_id
             ORDER BY r.seq
             LIMIT 1) AS put ON true
)
SELECT statement_timestamp() AS at, (SELECT CASE WHEN count(*) = $2::bigint THEN max(p.id) END FROM page p) AS upto, NULL::bigint AS queue_id, NULL::bigint AS group_id,
       0::bigint AS partitions, 0::bigint AS total, 0::bigint AS pending, 0::bigint AS processing, 0::bigint AS dead, 0::bigint AS lagging,
       0::bigint AS lag, 0::bigint AS due, 0::bigint AS leased, 0::bigint AS resting, 0::bigint AS failing, 0::bigint AS held,
       NULL::timestamptz AS oldest_at, NULL::timestamptz AS due_at, NULL::timestamptz AS consumed_at
UNION ALL
SELECT NULL, NULL, s.queue_id, NULL, count(*), sum(s.total)::bigint, sum(coalesce(s.waiting, s.alive))::bigint,
       sum(coalesce(s.remaining - s.waiting, 0))::bigint, sum(s.total - s.alive)::bigint, 0, 0, 0, 0, 0, 0, 0, min(s.oldest_at), NULL, NULL
  FROM (SELECT k.queue_id, k.id, k.total, k.alive, max(least(k.remaining, k.alive)) FILTER (WHERE k.group_id IS NOT NULL) AS remaining,
               max(greatest(least(k.waiting, k.alive - k.remaining + k.waiting), 0)) FILTER (WHERE k.group_id IS NOT NULL) AS waiting,
               min(k.oldest_at) AS oldest_at
          FROM place k
         GROUP BY k.queue_id, k.id, k.total, k.alive) AS s
 GROUP BY s.queue_id
UNION ALL
SELECT NULL, NULL, k.queue_id, k.group_id, count(*), 0, 0, 0, 0, count(*) FILTER (WHERE k.lag > 0), sum(k.lag)::bigint,
       count(*) FILTER (WHERE NOT k.live AND k.ready_at <= statement_timestamp()), count(*) FILTER (WHERE k.live),
       count(*) FILTER (WHERE NOT k.live AND k.ready_at > statement_timestamp()), count(*) FILTER (WHERE k.fails),
       sum(k.held)::bigint, min(k.oldest_at), min(k.oldest_at) FILTER (WHERE k.live OR k.ready_at <= statement_timestamp()), max(k.consumed_at)
  FROM place k
 WHERE k.group_id IS NOT NULL
 GROUP BY k.queue_id, k.group_id
UNION ALL
SELECT NULL, NULL, NULL, l.group_id, 0, 0, 0, 0, count(*), 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL
  FROM letter l
 GROUP BY l.group_id
