-- Creates a job, and tells the instances. It deletes ended jobs above the newest 1,000. $1 id, $2 queue, $3 group, $4 partition,
-- $5 transaction id, $6 error, $7 and $8 the first and the last failure ($8 NULL: now), $9 rate, $10 matched, $11 subject. $12 to $14: the
-- snapshot, the instant and the epoch of the count.
WITH old AS (
    DELETE FROM belfry.redrive_job j
     WHERE j.state <> 'running' AND j.created_at < (SELECT n.created_at FROM belfry.redrive_job n ORDER BY n.created_at DESC OFFSET 999 LIMIT 1)
), told AS (
    SELECT pg_notify('belfry_settings', '')
)
INSERT INTO belfry.redrive_job (id, queue, consumer_group, partition, transaction_id, error, failed_from, failed_to, rate, matched, subject,
                                snapshot, counted_at, epoch)
SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::timestamptz, least($8::timestamptz, clock_timestamp()), $9::bigint, $10::bigint, $11::text,
       $12::text::pg_snapshot, $13::timestamptz, $14::bigint
  FROM told
