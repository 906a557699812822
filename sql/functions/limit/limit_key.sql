-- Returns the key of the advisory lock that guards the insert of a row of belfry.limit_slot (p_kind 1),
-- belfry.limit_bucket (2), belfry.breaker (3) or belfry.breaker_count (4).
CREATE FUNCTION belfry.limit_key(p_kind integer, p_group bigint, p_tenant bigint, p_number bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashint8extended($4, hashint8extended($3, hashint8extended($2, 1651860071 + $1)))
$$;
