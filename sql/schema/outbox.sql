-- The inbox rows of the calling transaction, for libraries that end an INSERT with RETURNING *. In
-- belfry.inbox a producer reads ids only, because others have messages there.
CREATE VIEW belfry.outbox WITH (security_barrier) AS SELECT i.id, i.queue, i.partition, i.payload, i.transaction_id, i.trace_id, i.visible_at
  FROM belfry.inbox i WHERE i.xid = pg_catalog.pg_current_xact_id_if_assigned();
