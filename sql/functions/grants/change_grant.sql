-- Gives a grant, or revokes it. Only the owner of the schema and admins may execute it. The caller writes the
-- row of the audit.
--
-- The first grant to push creates the trigger on the inbox. The creation waits up to 5 seconds for open
-- transactions that have pushed, and later pushes wait meanwhile. The trigger does not exist from the
-- start, because it costs 1 to 3 % of the CPU time of an insert of 1,000 rows: Postgres copies the rows.
CREATE FUNCTION belfry.change_grant(p_kind text, p_role name, p_queue text, p_group text, p_revoke boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM belfry.check_names(p_queue, p_group);
    IF p_revoke THEN
        UPDATE belfry.queue_grant g SET revoked_at = clock_timestamp()
         WHERE g.kind = p_kind AND pg_get_userbyid(g.grantee) = p_role AND g.queue = p_queue AND g.consumer_group = p_group
           AND g.revoked_at IS NULL;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'role % has no such grant', quote_nullable(p_role) USING ERRCODE = 'undefined_object',
                HINT = 'Use the patterns of the grant. SELECT * FROM belfry.grants shows them.';
        END IF;
    ELSIF to_regrole(quote_ident(p_role)) IS NULL THEN
        RAISE EXCEPTION 'role % does not exist', quote_nullable(p_role) USING ERRCODE = 'undefined_object',
            HINT = 'Write the name without double quotes.';
    ELSE
        INSERT INTO belfry.queue_grant AS g (kind, grantee, queue, consumer_group, granted_by)
        VALUES (p_kind, quote_ident(p_role)::regrole, p_queue, p_group, belfry.calling_role())
        ON CONFLICT (kind, grantee, queue, consumer_group) DO UPDATE
           SET granted_by = excluded.granted_by, granted_at = excluded.granted_at, revoked_at = NULL
         WHERE g.revoked_at IS NOT NULL;
    END IF;
    IF NOT p_revoke AND p_kind = 'push' AND NOT belfry.pushes_are_checked() THEN
        CREATE OR REPLACE TRIGGER check_grants AFTER INSERT ON belfry.inbox
            REFERENCING NEW TABLE AS belfry_new FOR EACH STATEMENT EXECUTE FUNCTION belfry.inbox_check();
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'a transaction has pushed and is still open' USING ERRCODE = 'lock_not_available',
        HINT = 'Run this again. The first grant to push waits up to 5 seconds for such transactions.';
END $$;
REVOKE ALL ON FUNCTION belfry.change_grant(text, name, text, text, boolean) FROM PUBLIC;
