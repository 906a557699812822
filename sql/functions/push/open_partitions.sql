-- Finds or creates queues and partitions by name, and returns one row for each pair. If the queue is
-- deleted meanwhile, its pairs have no rows, and the caller calls again.
--
-- Locks the queues with FOR SHARE before it creates partitions. join_group locks the queue with FOR NO
-- KEY UPDATE while it registers a group. So either this call or a later join_page creates the cursor of
-- a group in a partition. If the group starts in the future, the cursor gets its start_at.
--
-- p_tenants are the tenants of the partitions that the call creates; see open_tenants. A partition keeps its tenant.
CREATE FUNCTION belfry.open_partitions(
    p_queues text[], p_partitions text[], p_lease_time bigint, p_retry_limit bigint, p_retry_delay bigint DEFAULT 0,
    p_retry_backoff bigint DEFAULT 0, p_retry_delay_max bigint DEFAULT 0,
    p_tenants text[] DEFAULT NULL
) RETURNS TABLE (
    queue_name text, partition_name text, queue_id bigint, partition_id bigint, partition_uid uuid, sealed boolean
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_tenants bigint[];
BEGIN
    INSERT INTO belfry.queue (name, namespace, task, lease_time, retry_limit, retry_delay, retry_backoff, retry_delay_max)
    SELECT DISTINCT w.name, split_part(w.name, '.', 1), split_part(w.name, '.', 2), p_lease_time, p_retry_limit, p_retry_delay,
           p_retry_backoff, p_retry_delay_max
      FROM unnest(p_queues) AS w(name)
     WHERE (SELECT q.id FROM belfry.queue q WHERE q.name = w.name AND q.deleted_at IS NULL) IS NULL
     ORDER BY 1
    ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;

    IF EXISTS (
        SELECT 1 FROM unnest(p_queues, p_partitions) AS w(queue, partition)
         WHERE (SELECT p.id FROM belfry.partition p
                 WHERE p.queue_id = (SELECT q.id FROM belfry.queue q WHERE q.name = w.queue AND q.deleted_at IS NULL)
                   AND p.name = w.partition) IS NULL
    ) THEN
        PERFORM q.id FROM belfry.queue q
          WHERE q.name = ANY (p_queues) AND q.deleted_at IS NULL
          ORDER BY q.id FOR SHARE;

        IF p_tenants IS NOT NULL OR EXISTS (
            SELECT FROM belfry.queue q WHERE q.name = ANY (p_queues) AND q.deleted_at IS NULL AND q.tenant_delimiter <> '')
        THEN
            v_tenants := belfry.open_tenants(p_queues, p_partitions, p_tenants);
        END IF;

        WITH created AS (
            INSERT INTO belfry.partition (queue_id, name, tenant_id)
            SELECT DISTINCT ON (q.id, w.partition) q.id, w.partition, w.tenant_id
              FROM unnest(p_queues, p_partitions, v_tenants) AS w(queue, partition, tenant_id)
             CROSS JOIN LATERAL (
                    SELECT q.id FROM belfry.queue q WHERE q.name = w.queue AND q.deleted_at IS NULL OFFSET 0) AS q
             WHERE (SELECT p.id FROM belfry.partition p WHERE p.queue_id = q.id AND p.name = w.partition) IS NULL
             ORDER BY 1, 2
            ON CONFLICT (queue_id, name) DO NOTHING
            RETURNING id, queue_id, tenant_id
        )
        INSERT INTO belfry.cursor (partition_id, group_id, tenant_id, start_at)
        SELECT created.id, g.id, created.tenant_id, CASE WHEN g.start_at > clock_timestamp() THEN g.start_at END
          FROM created
         CROSS JOIN LATERAL (
                SELECT g.id, g.start_at FROM belfry.consumer_group g WHERE g.queue_id = created.queue_id AND g.whole_queue OFFSET 0) AS g;
    END IF;

    RETURN QUERY
    SELECT q.name, p.name, q.id, p.id, p.uid, q.encryption_enabled
      FROM unnest(p_queues, p_partitions) AS w(queue, partition)
     CROSS JOIN LATERAL (
            SELECT q.id, q.name, q.encryption_enabled FROM belfry.queue q
             WHERE q.name = w.queue AND q.deleted_at IS NULL OFFSET 0) AS q
     CROSS JOIN LATERAL (
            SELECT p.id, p.uid, p.name FROM belfry.partition p
             WHERE p.queue_id = q.id AND p.name = w.partition OFFSET 0) AS p;
END $$;
