-- Raises an error if p_text cannot be an expression over the rows old and new of a table: a boolean, or
-- json if p_headers is true. The expression must be valid in parentheses and in a CASE. So it cannot end
-- the expression and begin another statement. A cursor also refuses several statements. There is no FETCH:
-- EXPLAIN would run immutable functions of the expression with the caller's rights.
CREATE FUNCTION belfry.check_expression(p_target regclass, p_schema name, p_text text, p_headers boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    v_plan refcursor;
    v_place text;
BEGIN
    PERFORM set_config('search_path', format('pg_catalog, %I, pg_temp', p_schema), true);
    FOREACH v_place IN ARRAY CASE WHEN p_headers
        THEN ARRAY['(%2$s' || E'\n)::pg_catalog.json IS NULL', 'CASE WHEN true THEN %2$s' || E'\nEND::pg_catalog.json IS NULL']
        ELSE ARRAY['(%2$s' || E'\n)', 'CASE WHEN %2$s' || E'\nTHEN true END'] END
    LOOP
        OPEN v_plan FOR EXECUTE format(
            'EXPLAIN SELECT 1 FROM (SELECT * FROM %1$s) AS new, (SELECT * FROM %1$s) AS old WHERE ' || v_place, p_target, p_text);
        CLOSE v_plan;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE EXCEPTION 'the % % cannot be used: %', CASE WHEN p_headers THEN 'headers' ELSE 'condition' END, quote_literal(p_text), SQLERRM
        USING ERRCODE = SQLSTATE, HINT = CASE WHEN p_headers
            THEN 'The headers are an object of texts, or a json expression over old and new, such as: json_build_object(''tenant'', new.tenant). '
            ELSE 'A condition is a boolean expression over old and new, such as: new.total > 100 AND old.total IS DISTINCT FROM new.total. ' END
            || 'For an insert old is NULL, for a delete new is NULL. Write the schema of each function that is not in the schema of the table.';
END $$;
