-- The functions as they were.
CREATE OR REPLACE FUNCTION pg_temp.rewrite(p_function regprocedure, VARIADIC p_pairs text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_text text := pg_get_functiondef(p_function);
BEGIN
    FOR i IN 1 .. cardinality(p_pairs) BY 2 LOOP
        IF strpos(v_text, p_pairs[i]) = 0 THEN
            RAISE EXCEPTION '% is not the function it was: it has no %', p_function, p_pairs[i];
        END IF;
        v_text := replace(v_text, p_pairs[i], p_pairs[i + 1]);
    END LOOP;
    EXECUTE v_text;
END $$;

SELECT pg_temp.rewrite('belfry.push_check(text, interval, timestamptz)',
    $r$'Give a delay of at most 365 days.'$r$,
    $r$'Give a delay of at most a year.'$r$,
    $r$more than 365 days from now'$r$,
    $r$more than a year from now'$r$,
    $r$'delay and$r$,
    $r$'belfry.push: delay and$r$,
    $r$'the $r$,
    $r$'belfry.push: the $r$,
    $r$    ELSIF octet_length(p_queue) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'belfry.push: the name of the queue is % bytes long', octet_length(p_queue)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has 1 to 255 bytes.';
$r$,
    $r$    ELSIF octet_length(p_queue) > 255 THEN
        RAISE EXCEPTION 'belfry.push: the name of the queue is % bytes long', octet_length(p_queue)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'At most 255 bytes are allowed.';
$r$);

CREATE OR REPLACE FUNCTION belfry.check_names(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(p_queue, '') = '' OR octet_length(p_queue) > 255 OR coalesce(p_group, '') = '' OR octet_length(p_group) > 255 THEN
        RAISE EXCEPTION 'the name of a queue or a consumer group has 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

SELECT pg_temp.rewrite('belfry.pop(text, text, integer, text, integer)',
    $r$        RAISE EXCEPTION 'a pop takes 1 to 10000 messages from 1 to 1000 partitions' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('batch is %s, partitions is %s.', coalesce(pop.batch::text, 'NULL'), coalesce(pop.partitions::text, 'NULL'));
$r$,
    $r$        RAISE EXCEPTION 'a pop takes 1 to 10000 messages from 1 to 1000 partitions' USING ERRCODE = 'invalid_parameter_value';
$r$);

SELECT pg_temp.rewrite('belfry.ack(uuid, uuid[], text, text)',
    $r$BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. Where it returned none there is nothing to acknowledge.';
    ELSIF status IS NULL$r$,
    $r$BEGIN
    IF status IS NULL$r$);

SELECT pg_temp.rewrite('belfry.extend(uuid, bigint)',
    $r$BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. Where it returned none there is nothing to prolong.';
    ELSIF seconds IS NULL OR seconds NOT BETWEEN 1 AND 31536000 THEN
        RAISE EXCEPTION 'a lease is prolonged by 1 second to a year' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('seconds is %s.', coalesce(seconds::text, 'NULL')), HINT = 'A year has 31536000 seconds.';
$r$,
    $r$BEGIN
    IF seconds IS NULL OR seconds NOT BETWEEN 1 AND 31536000 THEN
        RAISE EXCEPTION 'a lease is prolonged by 1 second to a year' USING ERRCODE = 'invalid_parameter_value';
$r$);

SELECT pg_temp.rewrite('belfry.subscribe(text, text, text, timestamptz)',
    $r$    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''all'', ''new'' or ''timestamp''.';
    ELSIF mode = 'timestamp' AND start_at IS NULL THEN
        RAISE EXCEPTION 'the subscription ''timestamp'' has no start_at' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give the instant behind which it starts: belfry.subscribe(queue, consumer_group, ''timestamp'', now() - interval ''1 hour'').';
    ELSIF mode <> 'timestamp' AND start_at IS NOT NULL THEN
        RAISE EXCEPTION 'the subscription % has a start_at', quote_literal(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'start_at goes with ''timestamp'' alone.';
$r$,
    $r$    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') OR (mode = 'timestamp') <> (start_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''all'', ''new'' or ''timestamp''; start_at goes with ''timestamp'' alone.';
$r$);
