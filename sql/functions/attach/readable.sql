-- Whether a text can be read as UTF-8. It costs a savepoint.
CREATE FUNCTION belfry.readable(p_text text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pg_catalog.convert_to(p_text, 'UTF8');
    RETURN true;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN false;
END $$;
