-- Checks the arguments of push and push_many that apply to all messages. Returns the instant at which
-- the messages become visible.
CREATE FUNCTION belfry.check_push(p_queue text, p_delay interval, p_visible_at timestamptz)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz := p_visible_at;
BEGIN
    IF p_queue IS NULL THEN
        RAISE EXCEPTION 'the queue is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Name the queue in the first argument: belfry.push(''orders'', ''{"id": 1}'').';
    ELSIF octet_length(p_queue) NOT BETWEEN 1 AND 255 OR p_queue IN ('.', '..') THEN
        RAISE EXCEPTION 'the name of the queue is %', CASE WHEN p_queue IN ('.', '..') THEN p_queue ELSE octet_length(p_queue) || ' bytes long' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.';
    ELSIF p_delay IS NOT NULL AND p_visible_at IS NOT NULL THEN
        RAISE EXCEPTION 'delay and visible_at are both given'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give one of them.';
    ELSIF p_delay < interval '0' THEN
        RAISE EXCEPTION 'the delay % is negative', p_delay
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave delay out for a message without a delay.';
    END IF;
    IF p_delay > interval '0' THEN
        v_at := clock_timestamp() + p_delay;
    END IF;
    IF v_at > clock_timestamp() + interval '365 days' THEN
        RAISE EXCEPTION 'the message would be visible at %, more than 365 days from now', v_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a delay of at most 365 days.';
    END IF;
    RETURN v_at;
END $$;
