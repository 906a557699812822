-- The trigger on belfry.attachment: deletes the rows of dropped tables at each attach and detach.
-- It runs with the rights of the schema's owner, because nobody owns those rows.
CREATE FUNCTION belfry.forget_dropped_tables() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM belfry.attachment_failure f
     WHERE f.id IN (
            SELECT g.id FROM belfry.attachment_failure g
             WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = g.target)
               FOR UPDATE SKIP LOCKED);
    DELETE FROM belfry.attachment a
     WHERE a.id IN (
            SELECT g.id FROM belfry.attachment g
             WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = g.target)
               FOR UPDATE SKIP LOCKED);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION belfry.forget_dropped_tables() FROM PUBLIC;
