-- Revokes what grant_consume gave with the same patterns. The next call of the role is refused.
CREATE FUNCTION belfry.revoke_consume(role name, queue text, consumer_group text DEFAULT '*') RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant('consume', $1, $2, $3, true)
$$;
