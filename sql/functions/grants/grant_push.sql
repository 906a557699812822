-- Lets a role push to the queues whose names match the pattern. Once a grant to push was given, each
-- role needs a grant to push, except the owner of the schema, admins and superusers.
CREATE FUNCTION belfry.grant_push(role name, queue text) RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant('push', $1, $2, '*', false)
$$;
