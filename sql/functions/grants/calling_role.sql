-- Returns the role of the session: the role of SET ROLE, or else the role that logged in. In a SECURITY
-- DEFINER function current_user is the owner of the function, and not the calling role.
CREATE FUNCTION belfry.calling_role() RETURNS name LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;
END $$;
