-- Sends each payload of $2 on channel $1, in one commit. Each row says whether the database is read
-- only, and has the key of notifications in hex. A commit that notifies holds a lock of the whole
-- cluster until it ends, so it must not wait for a disk or a standby. A crash loses no data of it.
-- synchronous_commit is off only in this transaction: a pooler may give the session to a client whose
-- commits must be durable.
SELECT pg_notify($1, payload)::text, current_setting('transaction_read_only') = 'on', (SELECT encode(k.key, 'hex') FROM belfry.channel_key k)
  FROM set_config('synchronous_commit', 'off', true), unnest($2::text[]) AS payload
