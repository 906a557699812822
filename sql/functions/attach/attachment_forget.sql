-- Forgets tables that are gone, whoever attaches or detaches one: nobody owns what
-- was noted of them.
CREATE FUNCTION belfry.attachment_forget() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
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
REVOKE ALL ON FUNCTION belfry.attachment_forget() FROM PUBLIC;
