-- The inbox rows of the calling transaction, for libraries that end an INSERT with RETURNING *. From
-- belfry.inbox a producer may read only ids, because the table also has messages of others.
CREATE VIEW belfry.outbox WITH (security_barrier) AS SELECT i.id, i.queue, i.partition, i.payload, i.transaction_id, i.trace_id, i.visible_at, i.headers, i.tenant
  FROM belfry.inbox i WHERE i.xid = pg_catalog.pg_current_xact_id_if_assigned();
