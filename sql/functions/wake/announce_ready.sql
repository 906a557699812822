-- Announces a ready cursor to the servers at the commit. Every SQL function that sets ready_at to a
-- value calls it, also for an instant in the future. pkg/postgres/listen describes the notification.
--
-- The notification has the instant at which the cursor is ready, so a server need not scan all index
-- entries. It has 0 (unknown) for an instant less than ten seconds ahead, which may pass before the
-- commit. A session with belfry.notify = off announces nothing: waiting requests see the cursor at the
-- next dispatch.fallback_interval.
CREATE FUNCTION belfry.announce_ready(p_group bigint, p_partition bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz;
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) IN ('off', 'false', 'no', '0')
       OR pg_notification_queue_usage() >= 0.97 THEN -- a full queue would fail the transaction
        RETURN;
    END IF;
    SELECT c.ready_at INTO v_at FROM belfry.cursor c
     WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group ORDER BY c.group_id DESC LIMIT 1;
    IF v_at > clock_timestamp() AND v_at < clock_timestamp() + interval '10 seconds' OR v_at > '9999-12-31' THEN
        v_at := NULL;
    END IF;
    PERFORM pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000000;r=%s/%s@%s', p_group, p_partition,
                                       coalesce((extract(epoch FROM v_at) * 1000000)::bigint, 0)));
END $$;
