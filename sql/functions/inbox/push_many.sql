-- Pushes many messages with one statement, in the order of the arrays. partitions, transaction_ids
-- and headers have the length of payloads, or are NULL. tenant is the tenant of the partitions that the
-- messages create. Returns the positions, from 1, and the transaction ids.
CREATE FUNCTION belfry.push_many(
    queue text, payloads json[], partitions text[] DEFAULT NULL, transaction_ids text[] DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers json[] DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS TABLE (index bigint, id text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_at timestamptz := belfry.check_push(push_many.queue, push_many.delay, push_many.visible_at);
    v_ids text[];
    v_bad bigint;
BEGIN
    IF cardinality(partitions) <> cardinality(payloads) OR cardinality(transaction_ids) <> cardinality(payloads)
        OR cardinality(headers) <> cardinality(payloads)
    THEN
        RAISE EXCEPTION 'belfry.push_many: there are % payloads, % partitions, % transaction ids and % headers',
            coalesce(cardinality(payloads), 0), coalesce(cardinality(partitions), 0), coalesce(cardinality(transaction_ids), 0),
            coalesce(cardinality(headers), 0)
            USING ERRCODE = 'array_subscript_error', HINT = 'Give one for each payload, or leave the array out.';
    END IF;
    -- unnest pairs the arrays, whatever their bounds and dimensions are.
    SELECT array_agg(coalesce(nullif(p.id, ''), belfry.uuid_v7()::text) ORDER BY p.nth),
           min(p.nth) FILTER (WHERE p.payload IS NULL OR octet_length(p.lane) > 255 OR p.lane IN ('.', '..') OR char_length(p.id) > 255)
      INTO v_ids, v_bad
      FROM unnest(payloads, partitions, transaction_ids) WITH ORDINALITY AS p(payload, lane, id, nth);
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'belfry.push_many: message % cannot be pushed', v_bad USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A payload must not be NULL, a partition has at most 255 bytes and is not . or .., a transaction id at most 255 characters.';
    END IF;
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant)
    SELECT push_many.queue, coalesce(p.lane, 'Default'), p.payload, p.id, push_many.trace_id, v_at,
           belfry.check_headers(p.headers), belfry.check_tenant(push_many.tenant)
      FROM unnest(payloads, partitions, v_ids, push_many.headers) WITH ORDINALITY AS p(payload, lane, id, headers, nth)
     ORDER BY p.nth;
    RETURN QUERY SELECT i.nth, i.id FROM unnest(v_ids) WITH ORDINALITY AS i(id, nth) ORDER BY i.nth;
END $$;
