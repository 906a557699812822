-- Reads the oldest and the newest message of up to three partitions in each of up to 100 queues. Queues
-- with encryption are first. Of these messages it returns the encrypted messages of at most 64 KiB, at
-- most 50. queues is the number of queues with encryption, at most 1,000. If no message is found, it
-- returns one row with id NULL.
SELECT e.queues, s.queue, s.partition, s.id, s.payload
  FROM (SELECT count(*) AS queues FROM (SELECT 1 FROM belfry.queue q WHERE q.deleted_at IS NULL AND q.encryption_enabled LIMIT 1000) AS c) AS e
  LEFT JOIN LATERAL (
        SELECT q.name AS queue, p.name AS partition, m.id, m.payload::text AS payload
          FROM (SELECT q.id, q.name FROM belfry.queue q
                 WHERE q.deleted_at IS NULL
                 ORDER BY q.encryption_enabled DESC, q.id DESC
                 LIMIT 100) AS q
         CROSS JOIN LATERAL (
                SELECT p.id, p.name, p.trimmed FROM belfry.partition p WHERE p.queue_id = q.id AND p.last_seq > p.trimmed LIMIT 3) AS p
         CROSS JOIN LATERAL (
                (SELECT m.id, m.payload, m.encrypted FROM belfry.message m
                  WHERE m.partition_id = p.id AND m.seq > p.trimmed ORDER BY m.seq LIMIT 1)
                UNION ALL
                (SELECT m.id, m.payload, m.encrypted FROM belfry.message m
                  WHERE m.partition_id = p.id AND m.seq > p.trimmed ORDER BY m.seq DESC LIMIT 1)) AS m
         WHERE m.encrypted AND pg_column_size(m.payload) <= 65536
         LIMIT 50) AS s ON true
