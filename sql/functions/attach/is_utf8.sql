-- Reports whether a text can be converted to UTF-8. A database with another encoding may store texts
-- that cannot be converted. A call costs a subtransaction.
CREATE FUNCTION belfry.is_utf8(p_text text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pg_catalog.convert_to(p_text, 'UTF8');
    RETURN true;
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN false;
END $$;
