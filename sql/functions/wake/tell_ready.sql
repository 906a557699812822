-- Takes the place of the function of migration 000015. It tells since when the cursor
-- is ready, or when it will be, as an instance does: who hears it need not look at all
-- that was ever due there (pkg/store/floors.go). What is ahead by less than ten seconds
-- may be over by the commit; of that it tells no instant.
CREATE FUNCTION belfry.tell_ready(p_group bigint, p_partition bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz;
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) IN ('off', 'false', 'no', '0')
       OR pg_notification_queue_usage() >= 0.97 THEN -- one too much fails the transaction
        RETURN;
    END IF;
    SELECT c.ready_at INTO v_at
      FROM belfry.cursor c
     WHERE c.partition_id = p_partition AND c.group_id >= p_group AND c.group_id <= p_group
     ORDER BY c.group_id DESC
     LIMIT 1;
    IF v_at > clock_timestamp() AND v_at < clock_timestamp() + interval '10 seconds' OR v_at > '9999-12-31' THEN
        v_at := NULL;
    END IF;
    PERFORM pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000000;r=%s/%s@%s', p_group, p_partition,
                                       coalesce((extract(epoch FROM v_at) * 1000000)::bigint, 0)));
END $$;
