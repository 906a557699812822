-- Notifies a session that waits in belfry.await. $1: the channel. A commit that notifies holds a
-- lock of the whole cluster, so it does not wait for the disk. It writes nothing that a crash could
-- lose.
SELECT pg_notify($1, '') FROM set_config('synchronous_commit', 'off', true)
