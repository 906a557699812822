-- Finds or creates the tenants of partitions that do not exist yet, and returns one id for each pair of names. The id
-- is NULL if the partition exists or gets no tenant. p_tenants may be NULL or have NULLs. Then the name of the
-- partition up to the tenantDelimiter of the queue is the tenant.
--
-- Until the commit, no other session deletes these tenants.
CREATE FUNCTION belfry.open_tenants(p_queues text[], p_partitions text[], p_tenants text[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_queues bigint[];
    v_names text[];
    v_ids bigint[];
BEGIN
    SELECT array_agg(q.id ORDER BY w.nth),
           array_agg(nullif(coalesce(w.tenant, CASE WHEN q.tenant_delimiter <> '' THEN split_part(w.partition, q.tenant_delimiter, 1) END), '')
                     ORDER BY w.nth)
      INTO v_queues, v_names
      FROM unnest(p_queues, p_partitions, p_tenants) WITH ORDINALITY AS w(queue, partition, tenant, nth)
      LEFT JOIN LATERAL (
            SELECT q.id, q.tenant_delimiter FROM belfry.queue q
             WHERE q.name = w.queue AND q.deleted_at IS NULL
               AND (SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = w.partition) IS NULL
            OFFSET 0) AS q ON true;
    LOOP
        INSERT INTO belfry.tenant (queue_id, name)
        SELECT DISTINCT w.queue_id, w.name FROM unnest(v_queues, v_names) AS w(queue_id, name)
         WHERE (SELECT t.id FROM belfry.tenant t WHERE t.queue_id = w.queue_id AND t.name = w.name) IS NULL
           AND w.queue_id IS NOT NULL AND w.name IS NOT NULL
         ORDER BY 1, 2
        ON CONFLICT (queue_id, name) DO NOTHING;
        PERFORM t.id FROM belfry.tenant t
          WHERE (t.queue_id, t.name) IN (SELECT w.queue_id, w.name FROM unnest(v_queues, v_names) AS w(queue_id, name))
          ORDER BY t.queue_id, t.name
            FOR KEY SHARE;
        SELECT array_agg(t.id ORDER BY w.nth) INTO v_ids
          FROM unnest(v_queues, v_names) WITH ORDINALITY AS w(queue_id, name, nth)
          LEFT JOIN LATERAL (
                SELECT t.id FROM belfry.tenant t WHERE t.queue_id = w.queue_id AND t.name = w.name OFFSET 0) AS t ON true;
        -- Another session may have deleted a tenant after the search for it.
        EXIT WHEN NOT EXISTS (
            SELECT FROM unnest(v_ids, v_queues, v_names) AS w(id, queue_id, name)
             WHERE w.id IS NULL AND w.queue_id IS NOT NULL AND w.name IS NOT NULL);
    END LOOP;
    RETURN v_ids;
END $$;
