-- Lets a SQL session wait for messages without polling. The session LISTENs on a channel for this queue,
-- group and partition, and requests a notification on it from the servers. Both take effect at the
-- commit, in this order. Returns the name of the channel.
--
-- The servers answer a request once. So a session repeats the call after each pop that found nothing, and
-- after a notification on belfry_again: a server sends it when it has just connected, because it may
-- have missed requests. The channel name is a hash of the request, so the queue need not exist. Every
-- role can hear notifications and forge them. So the request is encrypted, and has a tag: a hash of the
-- request, the session and belfry.channel_key. SECURITY DEFINER, because it reads the key and the grants.
CREATE FUNCTION belfry.await(queue text, consumer_group text DEFAULT '__QUEUE_MODE__', partition text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_key bytea := (SELECT k.key FROM belfry.channel_key k);
    v_request bytea := convert_to(json_build_array(await.queue, await.consumer_group, await.partition)::text, 'UTF8');
    v_tag bytea := substring(sha256(v_key || 'waiter' || int4send(pg_backend_pid()) || v_request) FOR 16);
    v_channel text := 'belfry_' || left(encode(sha256(v_key || 'channel' || v_request), 'hex'), 32);
    v_mask bytea;
BEGIN
    PERFORM belfry.check_consumer(await.queue, await.consumer_group);
    IF octet_length(await.partition) > 255 THEN
        RAISE EXCEPTION 'the name of the partition is % bytes long', octet_length(await.partition)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has at most 255 bytes.';
    END IF;
    SELECT substring(string_agg(sha256(v_key || 'mask' || v_tag || int4send(i)), '' ORDER BY i) FOR octet_length(v_request))
      INTO v_mask FROM generate_series(0, octet_length(v_request) / 32) i;
    EXECUTE format('LISTEN %I', v_channel);
    LISTEN belfry_again;
    PERFORM pg_notify('belfry_await', encode(v_tag || substring(varbit_send( -- the first 4 bytes are the length
        ('x' || encode(v_request, 'hex'))::varbit # ('x' || encode(v_mask, 'hex'))::varbit) FROM 5), 'base64'));
    RETURN v_channel;
END $$;
