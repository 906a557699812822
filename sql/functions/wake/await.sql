-- Lets a SQL session wait for messages without polling. The session LISTENs on a channel for this
-- queue, group and partition, and asks the servers for a notification there. Both take effect at
-- the commit, in this order. Returns the name of the channel.
--
-- A request is answered once, so a session repeats the call after each pop that found nothing, and
-- after belfry_again: a server that has just connected may have missed requests. The channel name is
-- a hash of the request, so the queue need not exist. Every role may execute the function, because
-- LISTEN and NOTIFY need no right. So a role without a grant can hear, without this function, that
-- something was pushed. It cannot read it. SECURITY DEFINER: the check of grants reads a table.
CREATE FUNCTION belfry.await(queue text, consumer_group text DEFAULT '__QUEUE_MODE__', partition text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_request text;
    v_channel text;
BEGIN
    PERFORM belfry.check_consumer(await.queue, await.consumer_group);
    IF octet_length(await.partition) > 255 THEN
        RAISE EXCEPTION 'the name of the partition is % bytes long', octet_length(await.partition)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has at most 255 bytes.';
    END IF;
    v_request := json_build_array(await.queue, await.consumer_group, await.partition)::text;
    v_channel := 'belfry_' || left(encode(sha256(convert_to(v_request, 'UTF8')), 'hex'), 32);
    EXECUTE format('LISTEN %I', v_channel);
    LISTEN belfry_again;
    PERFORM pg_notify('belfry_await', v_request);
    RETURN v_channel;
END $$;
