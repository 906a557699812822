-- Revokes what grant_push gave with the same pattern. The next statement of the role is refused.
CREATE FUNCTION belfry.revoke_push(role name, queue text) RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant('push', $1, $2, '*', true)
$$;
