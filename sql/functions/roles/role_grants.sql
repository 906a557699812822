-- Returns the statements that give role_name the rights of a 'producer', a 'consumer' or an 'admin'. The
-- role may also be a login role. The statements name all functions, because the default privileges of a
-- database may give PUBLIC no right to execute functions.
CREATE FUNCTION belfry.role_grants(kind text, role_name name) RETURNS SETOF text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF kind IS NULL OR kind NOT IN ('producer', 'consumer', 'admin') THEN
        RAISE EXCEPTION 'the kind % is not known', quote_nullable(kind) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use ''producer'', ''consumer'' or ''admin''.';
    END IF;
    RETURN QUERY SELECT format(s.text, role_name, pg_get_userbyid(o.relowner)) FROM pg_class o, (VALUES
        ('producer consumer admin', 'GRANT USAGE ON SCHEMA belfry TO %I'), ('producer consumer admin', 'GRANT SELECT ON belfry.grants TO %I'),
        ('producer admin', 'GRANT INSERT (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant), SELECT (id) ON belfry.inbox, belfry.outbox TO %I'),
        -- Rights on columns, because a role with UPDATE or DELETE on a whole table may also lock the table.
        ('producer admin', 'GRANT INSERT (target, queue, events, key, condition, payload, columns, headers, strict), UPDATE (events) ON belfry.attachment TO %I'),
        ('producer admin', 'GRANT INSERT (target, queue, event, code, message) ON belfry.attachment_failure TO %I'),
        ('producer admin', 'GRANT SELECT ON belfry.attachment, belfry.attachment_failure, belfry.attachments, belfry.outbox TO %I'),
        ('producer admin', 'GRANT SELECT ON belfry.schedules TO %I'),
        ('producer admin', 'GRANT EXECUTE ON FUNCTION belfry.unschedule(text), belfry.schedule(text, text, json, text, interval, timestamptz, text, '
            'text, json, interval, timestamptz, timestamptz, interval, text, text) TO %I'),
        ('producer consumer admin', (SELECT 'GRANT EXECUTE ON FUNCTION ' || string_agg(f.oid::regprocedure::text, ', ' ORDER BY f.oid) || ' TO %I' FROM pg_proc f
            WHERE f.pronamespace = 'belfry'::regnamespace AND (NOT f.prosecdef OR f.proname = 'await')
              AND f.proname NOT LIKE ALL (ARRAY['change_pause%', 'change_breaker%', 'set_limits', 'unblock_partition']))),
        ('consumer admin', 'GRANT EXECUTE ON FUNCTION belfry.subscribe(text, text, text, timestamptz), '
            'belfry.pop(text, text, integer, text, integer), belfry.ack(uuid, uuid[], text, text, interval, interval), belfry.extend(uuid, bigint) TO %I'),
        ('admin', 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA belfry TO %I'),
        ('admin', 'GRANT EXECUTE ON FUNCTION belfry.advance_ids(), belfry.change_grant(text, name, text, text, boolean), '
            'belfry.pause(text, text, text, text), belfry.resume(text, text, text), belfry.change_pause(text, text, text, boolean, text), '
            'belfry.unblock(text, text, text, text), belfry.unblock_partition(text, text, text, text, boolean), '
            'belfry.open_breaker(text, text, interval, text), belfry.close_breaker(text, text), '
            'belfry.change_breaker(text, text, boolean, interval, text), '
            'belfry.limit_group(text, text, json), belfry.set_limits(text, text, json) TO %I'),
        ('admin', 'REVOKE INSERT, UPDATE, DELETE ON belfry.schema_migrations FROM %I'),
        ('admin', 'ALTER DEFAULT PRIVILEGES FOR ROLE %2$I IN SCHEMA belfry GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %1$I')
    ) AS s(kinds, text)
     WHERE o.oid = 'belfry.queue'::regclass AND kind = ANY (string_to_array(s.kinds, ' '))
       -- Another migration tool stores the schema version in another table.
       AND (s.text NOT LIKE '%schema_migrations%' OR to_regclass('belfry.schema_migrations') IS NOT NULL);
END $$;
