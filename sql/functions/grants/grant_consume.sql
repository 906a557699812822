-- Lets a role consume the queues whose names match the pattern, as the groups whose names match
-- consumer_group. After the first grant to consume, each role needs such a grant; see grant_push.
CREATE FUNCTION belfry.grant_consume(role name, queue text, consumer_group text DEFAULT '*') RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('consume', $1, $2, $3, false)
$$;
