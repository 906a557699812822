-- Returns a value as text, independent of the settings of the session.
CREATE FUNCTION belfry.key_text(p_value anyelement) RETURNS text LANGUAGE plpgsql STABLE
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 1
SET lc_monetary = 'C' AS $$
BEGIN
    RETURN p_value::text;
END $$;
