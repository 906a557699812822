-- Errors of the functions for producers and consumers say what was wrong and what to
-- do: belfry.push_many does not call itself belfry.push, a queue has a name for
-- producers as it has for consumers, and a lease that is NULL, which a pop of nothing
-- leaves, is not one that is over.
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
    $r$    ELSIF octet_length(p_queue) > 255 THEN
        RAISE EXCEPTION 'belfry.push: the name of the queue is % bytes long', octet_length(p_queue)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'At most 255 bytes are allowed.';
$r$,
    $r$    ELSIF octet_length(p_queue) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'belfry.push: the name of the queue is % bytes long', octet_length(p_queue)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has 1 to 255 bytes.';
$r$,
    $r$'belfry.push: the $r$, $r$'the $r$,
    $r$'belfry.push: delay and$r$, $r$'delay and$r$,
    $r$more than a year from now'$r$, $r$more than 365 days from now'$r$,
    $r$'Give a delay of at most a year.'$r$, $r$'Give a delay of at most 365 days.'$r$);

CREATE OR REPLACE FUNCTION belfry.check_names(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(octet_length(p_queue) NOT BETWEEN 1 AND 255, true) THEN
        RAISE EXCEPTION 'the name of the queue is %', coalesce(octet_length(p_queue) || ' bytes long', 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has 1 to 255 bytes.';
    ELSIF coalesce(octet_length(p_group) NOT BETWEEN 1 AND 255, true) THEN
        RAISE EXCEPTION 'the name of the consumer group is %', coalesce(octet_length(p_group) || ' bytes long', 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has 1 to 255 bytes.';
    END IF;
END $$;

SELECT pg_temp.rewrite('belfry.pop(text, text, integer, text, integer)',
    $r$        RAISE EXCEPTION 'a pop takes 1 to 10000 messages from 1 to 1000 partitions' USING ERRCODE = 'invalid_parameter_value';
$r$,
    $r$        RAISE EXCEPTION 'a pop takes 1 to 10000 messages from 1 to 1000 partitions' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('batch is %s, partitions is %s.', coalesce(pop.batch::text, 'NULL'), coalesce(pop.partitions::text, 'NULL'));
$r$);

SELECT pg_temp.rewrite('belfry.ack(uuid, uuid[], text, text)',
    $r$BEGIN
    IF status IS NULL$r$,
    $r$BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. Where it returned none there is nothing to acknowledge.';
    ELSIF status IS NULL$r$);

SELECT pg_temp.rewrite('belfry.extend(uuid, bigint)',
    $r$BEGIN
    IF seconds IS NULL OR seconds NOT BETWEEN 1 AND 31536000 THEN
        RAISE EXCEPTION 'a lease is prolonged by 1 second to a year' USING ERRCODE = 'invalid_parameter_value';
$r$,
    $r$BEGIN
    IF lease IS NULL THEN
        RAISE EXCEPTION 'the lease is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Give the lease that belfry.pop returned with the messages. Where it returned none there is nothing to prolong.';
    ELSIF seconds IS NULL OR seconds NOT BETWEEN 1 AND 31536000 THEN
        RAISE EXCEPTION 'a lease is prolonged by 1 second to a year' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = format('seconds is %s.', coalesce(seconds::text, 'NULL')), HINT = 'A year has 31536000 seconds.';
$r$);

SELECT pg_temp.rewrite('belfry.subscribe(text, text, text, timestamptz)',
    $r$    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') OR (mode = 'timestamp') <> (start_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''all'', ''new'' or ''timestamp''; start_at goes with ''timestamp'' alone.';
$r$,
    $r$    IF mode IS NULL OR mode NOT IN ('all', 'new', 'timestamp') THEN
        RAISE EXCEPTION 'the subscription % is not known', quote_nullable(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It is ''all'', ''new'' or ''timestamp''.';
    ELSIF mode = 'timestamp' AND start_at IS NULL THEN
        RAISE EXCEPTION 'the subscription ''timestamp'' has no start_at' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give the instant behind which it starts: belfry.subscribe(queue, consumer_group, ''timestamp'', now() - interval ''1 hour'').';
    ELSIF mode <> 'timestamp' AND start_at IS NOT NULL THEN
        RAISE EXCEPTION 'the subscription % has a start_at', quote_literal(mode) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'start_at goes with ''timestamp'' alone.';
$r$);
