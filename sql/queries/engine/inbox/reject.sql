-- Moves the inbox rows $1 to belfry.inbox_rejected, with codes $2 and reasons $3. A row that was deleted
-- meanwhile is not moved.
WITH gone AS (
    DELETE FROM belfry.inbox i WHERE i.id = ANY ($1::bigint[])
    RETURNING i.id, i.queue, i.partition, i.payload, i.transaction_id, i.trace_id, i.visible_at, i.headers, i.tenant, i.inserted_at
)
INSERT INTO belfry.inbox_rejected
       (id, queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant, inserted_at, code, reason)
SELECT g.id, g.queue, coalesce(g.partition, 'Default'), g.payload, g.transaction_id, g.trace_id, g.visible_at, g.headers, g.tenant, g.inserted_at, w.code, w.reason
  FROM unnest($1::bigint[], $2::text[], $3::text[]) AS w(id, code, reason)
  JOIN gone g ON g.id = w.id
