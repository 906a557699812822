-- Revokes the grant that grant_push gave with the same pattern, from the next statement of the role on.
CREATE FUNCTION belfry.revoke_push(role name, queue text) RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('push', $1, $2, '*', true)
$$;
