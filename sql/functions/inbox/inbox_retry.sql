-- Puts rejected rows back at the end of the inbox: the rows with these ids, or all if ids is NULL.
-- Returns the number of rows.
CREATE FUNCTION belfry.inbox_retry(ids bigint[] DEFAULT NULL) RETURNS bigint LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM belfry.inbox_rejected r
         WHERE inbox_retry.ids IS NULL OR r.id = ANY (inbox_retry.ids)
        RETURNING r.id, r.queue, r.partition, r.payload, r.transaction_id, r.trace_id, r.visible_at, r.headers, r.tenant
    ), back AS (
        INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant)
        SELECT g.queue, g.partition, g.payload, g.transaction_id, g.trace_id, g.visible_at, g.headers, g.tenant FROM gone g ORDER BY g.id
        RETURNING 1
    )
    SELECT count(*) FROM back
$$;
