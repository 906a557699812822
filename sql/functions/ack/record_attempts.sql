-- Stores failed deliveries of messages, and deletes all but the newest 20 of each message and group. It sets
-- nth. It leaves out a message that is deleted, and a lease that is stored already. The caller has locked
-- the cursors of the messages.
CREATE FUNCTION belfry.record_attempts(p_attempts belfry.attempt[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH made AS (
        INSERT INTO belfry.attempt (partition_id, seq, group_id, nth, delivered_at, failed_at, result, lease_id, error, consumer, instance)
        SELECT a.partition_id, a.seq, a.group_id,
               coalesce((SELECT t.nth FROM belfry.attempt t
                          WHERE t.partition_id = a.partition_id AND t.seq = a.seq AND t.group_id = a.group_id ORDER BY t.nth DESC LIMIT 1), 0)
                   + row_number() OVER (PARTITION BY a.partition_id, a.seq, a.group_id ORDER BY a.ord),
               a.delivered_at, a.failed_at, a.result, a.lease_id, left(a.error, 1000), a.consumer, a.instance
          FROM unnest(p_attempts) WITH ORDINALITY
               AS a(partition_id, seq, group_id, nth, delivered_at, failed_at, result, lease_id, error, consumer, instance, ord)
         WHERE EXISTS (SELECT FROM belfry.message m WHERE m.partition_id = a.partition_id AND m.seq = a.seq)
           AND (a.result = 5 AND a.lease_id = (
                SELECT t.lease_id FROM belfry.attempt t
                 WHERE t.partition_id = a.partition_id AND t.seq = a.seq AND t.group_id = a.group_id ORDER BY t.nth DESC LIMIT 1)) IS NOT TRUE
        ON CONFLICT DO NOTHING
        RETURNING partition_id, seq, group_id, nth
    )
    -- The key is exact, so the statement reads no dead rows.
    DELETE FROM belfry.attempt t
     USING made m
     WHERE t.partition_id = m.partition_id AND t.seq = m.seq AND t.group_id = m.group_id AND t.nth = m.nth - 20;
END $$;
