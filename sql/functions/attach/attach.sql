-- Makes every change of a table a message of a queue; what was attached to it for
-- that queue before is replaced. The table belongs to the caller, or to a role
-- the caller is a member of, and its owner is a producer.
CREATE FUNCTION belfry.attach(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE belfry.attach_sql(target, queue, events, key, condition, payload, columns, strict);
END $$;
