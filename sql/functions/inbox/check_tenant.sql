-- Returns the name of a tenant, or NULL for an empty name. Raises an error if the name is not valid.
CREATE FUNCTION belfry.check_tenant(p_tenant text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(p_tenant) > 255 OR p_tenant IN ('.', '..') THEN
        RAISE EXCEPTION 'the name of the tenant is %', CASE WHEN p_tenant IN ('.', '..') THEN p_tenant ELSE octet_length(p_tenant) || ' bytes long' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has at most 255 bytes, and is not . or .., because clients remove these from paths.';
    END IF;
    RETURN nullif(p_tenant, '');
END $$;
