-- Reports whether the inbox has the trigger that checks grants. Belfry never drops the trigger.
CREATE FUNCTION belfry.pushes_are_checked() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'belfry.inbox'::regclass AND t.tgname = 'check_grants');
END $$;
