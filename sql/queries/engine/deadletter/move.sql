-- Pushes the messages of the dead letters with the ids $1 to queue $3, and deletes these dead letters,
-- if $2 is the epoch. The messages go through the inbox, in the order of the log. A dead letter stays if
-- its message is deleted or encrypted, or if the dead letter is locked; see delete.sql. Returns the
-- number of moved dead letters.
WITH held AS MATERIALIZED (
    SELECT d.id, d.partition_id, d.seq FROM belfry.dead_letter d
     WHERE d.id = ANY ($1::bigint[]) AND belfry.epoch() = $2::bigint
       FOR UPDATE SKIP LOCKED
), found AS MATERIALIZED (
    SELECT h.id, h.partition_id, h.seq, p.name, m.payload, m.transaction_id, m.trace_id, m.headers
      FROM held h
     CROSS JOIN LATERAL (SELECT p.name FROM belfry.partition p WHERE p.id = h.partition_id OFFSET 0) AS p
     CROSS JOIN LATERAL (
            SELECT m.payload, m.transaction_id, m.trace_id, m.headers FROM belfry.message m
             WHERE m.partition_id = h.partition_id AND m.seq = h.seq AND NOT m.encrypted OFFSET 0) AS m
), gone AS (
    DELETE FROM belfry.dead_letter d USING found f WHERE d.id = f.id AND d.id = ANY ($1::bigint[])
), pushed AS (
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, headers)
    SELECT $3::text, f.name, f.payload, f.transaction_id, f.trace_id, f.headers FROM found f ORDER BY f.partition_id, f.seq
    RETURNING 1
)
SELECT count(*) AS moved FROM pushed
