-- Drops the triggers of a table, for one queue or for all, also triggers without a row in
-- belfry.attachment. Returns the queues that received messages of the table.
CREATE FUNCTION belfry.detach(target regclass, queue text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_owner name;
    v_queues text[] := '{}';
    v_functions regprocedure[];
    t record;
BEGIN
    SELECT pg_get_userbyid(c.relowner) INTO v_owner FROM pg_class c WHERE c.oid = target;
    IF v_owner IS NOT NULL AND NOT pg_has_role(current_user, v_owner, 'USAGE') THEN
        RAISE EXCEPTION '% may not detach %: it belongs to %', current_user, target, v_owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Run this as %1$I, or GRANT %1$I TO %2$I.', v_owner, current_user);
    END IF;
    FOR t IN SELECT s.trigger_name, s.function_oid, s.queue FROM belfry.attachment_triggers(target, queue) AS s LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.trigger_name, target);
        v_functions := v_functions || t.function_oid;
        v_queues := v_queues || t.queue;
    END LOOP;
    FOR t IN
        SELECT DISTINCT f.id FROM unnest(v_functions) AS f(id)
         WHERE f.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_trigger g WHERE g.tgfoid = f.id) -- a trigger of another table uses it
    LOOP
        EXECUTE format('DROP FUNCTION %s', t.id);
    END LOOP;
    RETURN QUERY
        SELECT k.queue FROM belfry.attachment k WHERE k.target = target AND k.queue = coalesce(queue, k.queue)
        UNION
        SELECT s.queue FROM unnest(v_queues) AS s(queue)
        ORDER BY 1;
    UPDATE belfry.attachment k SET events = '{}' WHERE k.target = target AND k.queue = coalesce(queue, k.queue);
END $$;
