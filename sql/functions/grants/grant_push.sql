-- Lets a role push to the queues whose names match the pattern. After the first grant to push, each
-- role needs such a grant, except the owner of the schema, admins and superusers.
CREATE FUNCTION belfry.grant_push(role name, queue text) RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant_in_session('push', $1, $2, '*', false)
$$;
