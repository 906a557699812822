-- Runs belfry.grant_push and its siblings: changes a grant in a SQL session and writes a row of the audit.
CREATE FUNCTION belfry.change_grant_in_session(p_kind text, p_role name, p_queue text, p_group text, p_revoke boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM belfry.change_grant(p_kind, p_role, p_queue, p_group, p_revoke);
    INSERT INTO belfry.audit (id, subject, address, request_id, action, parameters, counts, result)
    VALUES (belfry.uuid_v7(), belfry.calling_role(), 'sql', gen_random_uuid()::text, CASE WHEN p_revoke THEN 'grant.revoke' ELSE 'grant.give' END,
            json_build_object('kind', p_kind, 'role', p_role, 'queue', p_queue, 'consumerGroup', p_group), '{}', 'ok');
END $$;
