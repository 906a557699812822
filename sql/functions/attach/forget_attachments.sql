-- The trigger on belfry.attachment: deletes the attachments that are marked by events = '{}' or whose table was
-- dropped, and failures without an attachment. It runs with the rights of the schema's owner: members may
-- delete no row, and nobody owns the rows of dropped tables.
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
