-- Reports whether the inbox has the trigger that checks grants. It stays once it exists.
CREATE FUNCTION belfry.pushes_are_checked() RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'belfry.inbox'::regclass AND t.tgname = 'check_grants');
END $$;
