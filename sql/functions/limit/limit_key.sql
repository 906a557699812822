-- Returns the key of the advisory lock that guards the insert of a row of belfry.limit_slot (p_kind 1) or of
-- belfry.limit_bucket (p_kind 2).
CREATE FUNCTION belfry.limit_key(p_kind integer, p_group bigint, p_tenant bigint, p_number bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashint8extended($4, hashint8extended($3, hashint8extended($2, 1651860071 + $1)))
$$;
