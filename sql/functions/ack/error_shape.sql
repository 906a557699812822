-- Returns the shape of an error: its text with a mark for each part that differs between similar errors. "*" replaces a quoted
-- text, <id> a UUID or another long id, <hex> a hexadecimal number, and # a number. White space becomes one space. The
-- function reads the first 200 characters of the error, without a word that ends there: the word may be cut. belfry.dead_letter
-- stores the shape of each error.
CREATE FUNCTION belfry.error_shape(p_error text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v text COLLATE "C" := left(p_error, 200);
BEGIN
    IF length(v) = 200 THEN
        v := regexp_replace(v, '[0-9A-Za-z-]+$', '');
    END IF;
    v := regexp_replace(v, '\s+', ' ', 'g');
    v := regexp_replace(v, '"[^"]*"', '"*"', 'g');
    v := regexp_replace(v, '`[^`]*`', '`*`', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])''[^'']*''(?![0-9A-Za-z])', '''*''', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])', '<id>', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])0[xX][0-9a-fA-F]+', '<hex>', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])(?=[0-9a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9A-Za-z])', '<hex>', 'g');
    v := regexp_replace(v, '(?<![0-9A-Za-z])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[0-9A-Za-z]{16,}(?![0-9A-Za-z])', '<id>', 'g');
    v := regexp_replace(v, '(^|[ (=:,\[])[-+]([0-9])', '\1\2', 'g');
    v := regexp_replace(v, '[0-9]+([.,:][0-9]+)*', '#', 'g');
    RETURN left(v, 200);
END $$;
