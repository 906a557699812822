-- Marks the message with transaction id $2 in the partition with uid $1 as sent again. The new message has id $3,
-- queue $4, partition $5 and transaction id $6. $7: the sender. With $8, deletes the dead letters of the old
-- message, of group $9 (NULL: all groups). Skips locked rows; see deadletter/delete.sql. Returns the number of
-- deleted dead letters. A message that is being deleted gets no mark.
WITH old AS MATERIALIZED (
    SELECT m.partition_id, m.seq, p.queue_id
      FROM belfry.partition p
      JOIN belfry.message m ON m.partition_id = p.id AND m.transaction_id = $2::text
     WHERE p.uid = $1::uuid AND NOT p.closed
       FOR KEY SHARE OF m SKIP LOCKED
), marked AS (
    INSERT INTO belfry.resent (partition_id, seq, message_id, queue, partition, transaction_id, sender)
    SELECT o.partition_id, o.seq, $3::uuid, $4::text, $5::text, $6::text, nullif($7::text, '') FROM old o
    ON CONFLICT DO NOTHING
), gone AS (
    DELETE FROM belfry.dead_letter l
     WHERE l.id = ANY (ARRAY (
            SELECT d.id
              FROM old o
              JOIN belfry.consumer_group g ON g.queue_id = o.queue_id AND ($9::text IS NULL OR g.name = $9::text)
              JOIN belfry.dead_letter d ON d.partition_id = o.partition_id AND d.group_id = g.id AND d.seq = o.seq
             WHERE $8::boolean
               FOR UPDATE OF d SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) AS removed FROM gone
