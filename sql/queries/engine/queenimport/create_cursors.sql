-- Creates the missing cursors of group $1 in the partitions of queue $2. The cursors start at $3.
SELECT belfry.create_cursors($1::bigint, ARRAY (SELECT p.id FROM belfry.partition p WHERE p.queue_id = $2::bigint AND NOT p.closed), $3::timestamptz)
