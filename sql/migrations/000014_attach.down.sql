-- The triggers on the tables of others go with what is noted of them. Triggers
-- that nobody noted would go on and warn of each statement.
DO $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT a.target, a.queue FROM belfry.attachment a JOIN pg_catalog.pg_class c ON c.oid = a.target LOOP
        PERFORM belfry.detach(k.target, k.queue);
    END LOOP;
END $$;
DROP FUNCTION belfry.detach(regclass, text);
DROP FUNCTION belfry.attach(regclass, text, text[], text[], text, text, text[], boolean);
DROP FUNCTION belfry.attach_sql(regclass, text, text[], text[], text, text, text[], boolean);
DROP FUNCTION belfry.attachment_function(regclass, text, text, text, text[], text, text, text[], boolean);
DROP FUNCTION belfry.check_attachable(regclass);
DROP FUNCTION belfry.attachment_triggers(regclass, text);
DROP FUNCTION belfry.attachment_failed(regclass, text, text, text, text);
DROP FUNCTION belfry.partition_of(text[]);
DROP VIEW belfry.attachments;
DROP TABLE belfry.attachment_failure;
DROP TABLE belfry.attachment;
DROP FUNCTION belfry.owns_table(oid, name);
