-- Notifies a session that waits with belfry.await. $1: the channel. A commit that notifies holds a lock
-- of the whole cluster, so this commit does not wait for the disk. It changes no data.
SELECT pg_notify($1, '') FROM set_config('synchronous_commit', 'off', true)
