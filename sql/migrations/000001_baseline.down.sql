-- Generated from sql/schema and sql/functions by go run ./scripts/baseline.

-- Drops everything that the baseline migration made, with every stored message. Two things stay: the
-- schema itself, which holds the version record, and the three roles, which other databases of the
-- cluster may use.

-- The triggers on attached tables call functions of the schema. A remaining trigger would raise a
-- warning at every statement, or make the statement fail if the attachment is strict.
DO $$
DECLARE
    k record;
    v_role name;
BEGIN
    FOR k IN SELECT a.target, a.queue FROM belfry.attachment a JOIN pg_catalog.pg_class c ON c.oid = a.target LOOP
        PERFORM belfry.detach(k.target, k.queue);
    END LOOP;
    FOREACH v_role IN ARRAY ARRAY['belfry_producer', 'belfry_consumer', 'belfry_admin']::name[] LOOP
        CONTINUE WHEN to_regrole(v_role::text) IS NULL;
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA belfry REVOKE ALL ON TABLES FROM %I',
            (SELECT pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c WHERE c.oid = 'belfry.queue'::regclass), v_role);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA belfry FROM %I', v_role);
        EXECUTE format('REVOKE ALL ON SCHEMA belfry FROM %I', v_role);
    END LOOP;
END $$;

-- Their parameters or results are rows of tables.
DROP FUNCTION belfry.record_attempts(belfry.attempt[]), belfry.empty_buckets(bigint, belfry.group_limit, belfry.group_limit),
    belfry.limits_json(belfry.group_limit), belfry.read_limits(json);
DROP VIEW belfry.attachments, belfry.grants, belfry.outbox, belfry.schedules;
DROP TABLE belfry.breaker, belfry.breaker_count, belfry.limit_slot, belfry.limit_bucket, belfry.limit_number, belfry.group_limit, belfry.schedule, belfry.history, belfry.history_instance, belfry.redrive_job, belfry.audit_places, belfry.audit_undo, belfry.audit, belfry.attachment, belfry.attachment_failure, belfry.inbox, belfry.inbox_rejected, belfry.queue_grant, belfry.revoked_token, belfry.setting, belfry.channel_key, belfry.spool,
    belfry.stream_state, belfry.stream_cycle, belfry.stream,
    belfry.trace_name, belfry.trace, belfry.queue_sweep, belfry.sweep, belfry.redrive, belfry.attempt, belfry.resent, belfry.dead_letter, belfry.cursor, belfry.group_deleted,
    belfry.consumer_group, belfry.message, belfry.partition, belfry.tenant, belfry.queue;

DO $$
DECLARE
    v_function regprocedure;
BEGIN
    FOR v_function IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'belfry'::regnamespace LOOP
        EXECUTE format('DROP FUNCTION %s', v_function);
    END LOOP;
END $$;

DROP TYPE belfry.claim_row, belfry.ack_row, belfry.ack_change, belfry.outcome;
