-- Notifies a session that asked for it with belfry.await (migration 000030). A
-- notifying commit holds a lock of the whole cluster, so it waits for no disk; it has
-- nothing to lose there. $1: the channel.
SELECT pg_notify($1, '') FROM set_config('synchronous_commit', 'off', true)
