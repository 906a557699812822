-- Consumers in SQL wait without looking, as those over HTTP do. belfry.await lets the
-- session LISTEN on a channel of what it waits for, and asks the instances to be told
-- there; it does both at the commit, in this order. Each wish is told once, so it goes
-- after each pop that found nothing. On belfry_again whoever connects tells everybody to
-- ask again: it may have missed a wish. The channel is made of the wish, which says
-- everything an instance needs, so that a queue that does not exist yet can be waited
-- for, and nothing is written.
--
-- It runs with the caller's rights: LISTEN and NOTIFY need none.
CREATE FUNCTION belfry.await(queue text, consumer_group text DEFAULT '__QUEUE_MODE__', partition text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_wish text;
    v_channel text;
BEGIN
    PERFORM belfry.check_names(await.queue, await.consumer_group);
    IF octet_length(await.partition) > 255 THEN
        RAISE EXCEPTION 'the name of the partition is % bytes long', octet_length(await.partition)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has at most 255 bytes.';
    END IF;
    v_wish := json_build_array(await.queue, await.consumer_group, await.partition)::text;
    v_channel := 'belfry_' || left(encode(sha256(convert_to(v_wish, 'UTF8')), 'hex'), 32);
    EXECUTE format('LISTEN %I', v_channel);
    LISTEN belfry_again;
    PERFORM pg_notify('belfry_await', v_wish);
    RETURN v_channel;
END $$;
