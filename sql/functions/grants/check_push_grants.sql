-- Raises 42501 if a role may not push to one of the queues. The caller must have the rights of the
-- role, or it does not see the grants of the role. The caller must also have a fixed search path.
CREATE FUNCTION belfry.check_push_grants(p_role name, p_queues text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_queue text;
BEGIN
    WITH held AS MATERIALIZED (
        SELECT g.queue FROM belfry.grants g WHERE g.kind = 'push' AND pg_has_role(p_role, g.role_id, 'USAGE')
    )
    SELECT left(min(q.name), 255) INTO v_queue FROM unnest(p_queues) AS q(name)
     WHERE NOT EXISTS (SELECT FROM held h WHERE belfry.matches(q.name, h.queue));
    IF v_queue IS NOT NULL AND NOT has_table_privilege(p_role, 'belfry.queue_grant', 'UPDATE') THEN
        RAISE EXCEPTION 'role % may not push to queue %', quote_ident(p_role), quote_literal(v_queue) USING ERRCODE = 'insufficient_privilege',
            HINT = format('The owner of the schema, or a member of belfry_admin, runs: SELECT belfry.grant_push(%L, %L);', p_role, v_queue);
    END IF;
END $$;
