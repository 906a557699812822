-- The trigger on belfry.attachment: deletes the attachments with events = '{}' or with a dropped table,
-- and failures without an attachment. It runs with the rights of the schema's owner, because producers
-- may not delete rows, and the row of a dropped table has no owner.
CREATE FUNCTION belfry.forget_attachments() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM belfry.attachment a WHERE a.id IN (
        SELECT g.id FROM belfry.attachment g
         WHERE g.events = '{}' OR NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = g.target) FOR UPDATE SKIP LOCKED);
    DELETE FROM belfry.attachment_failure f WHERE f.id IN (
        SELECT g.id FROM belfry.attachment_failure g
         WHERE NOT EXISTS (SELECT 1 FROM belfry.attachment a WHERE a.target = g.target AND a.queue = g.queue) FOR UPDATE SKIP LOCKED);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION belfry.forget_attachments() FROM PUBLIC;
