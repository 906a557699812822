-- Turns every change of a table into a message of a queue. An earlier attachment of the table to
-- that queue is replaced. The caller must own the table, or be a member of the owner. The owner
-- must have the rights of a producer. headers is an object of texts, or an expression over old and new
-- that returns one.
CREATE FUNCTION belfry.attach(
    target regclass, queue text, events text[] DEFAULT '{insert,update,delete}', key text[] DEFAULT '{}', condition text DEFAULT NULL,
    payload text DEFAULT 'row', columns text[] DEFAULT NULL, strict boolean DEFAULT false, headers text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE belfry.attach_sql(target, queue, events, key, condition, payload, columns, strict, headers);
END $$;
