-- Revokes the grant that grant_consume gave with the same patterns, from the next call of the role on.
CREATE FUNCTION belfry.revoke_consume(role name, queue text, consumer_group text DEFAULT '*') RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('consume', $1, $2, $3, true)
$$;
