-- Raises an error if a name is invalid. Raises 42501 if the role of the session may not consume the queue
-- as the group. The result does not depend on whether the queue exists.
CREATE FUNCTION belfry.check_consumer(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM belfry.check_names(p_queue, p_group);
    IF NOT belfry.may_consume(p_queue, p_group) THEN
        RAISE EXCEPTION 'role % may not consume queue % as group %', quote_ident(belfry.calling_role()), quote_literal(p_queue), quote_literal(p_group)
            USING ERRCODE = 'insufficient_privilege',
                HINT = format('The owner of the schema, or a member of belfry_admin, runs: SELECT belfry.grant_consume(%L, %L, %L);',
                              belfry.calling_role(), p_queue, p_group);
    END IF;
END $$;
