-- Writes a row of the audit for a breaker that opened or closed by itself. The events come from the audit.
CREATE FUNCTION belfry.audit_breaker(p_group bigint, p_action text, p_parameters json) RETURNS void LANGUAGE sql AS $$
    INSERT INTO belfry.audit (id, subject, address, request_id, action, queue, consumer_group, parameters, counts, result)
    SELECT belfry.uuid_v7(), 'belfry', 'breaker', gen_random_uuid()::text, p_action, q.name, g.name, p_parameters, '{"changed":1}', 'ok'
      FROM belfry.consumer_group g
      JOIN belfry.queue q ON q.id = g.queue_id
     WHERE g.id = p_group
$$;
