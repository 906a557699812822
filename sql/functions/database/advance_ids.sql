-- Moves every id sequence past the ids in use, and returns the tables whose sequence moved. Logical
-- replication copies rows and not sequences. So after a subscription filled the tables, ids would be
-- assigned twice. A sequence that is not behind costs one index probe. If a row has a higher id, the
-- sequence is read again, because the row may be new. A sequence moves a million ids past the highest
-- id, because other sessions may draw ids meanwhile.
CREATE FUNCTION belfry.advance_ids() RETURNS text[] LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    c_left_out CONSTANT bigint := 1000000;
    v_ids record;
    v_next bigint;
    v_highest bigint;
    v_advanced text[] := '{}';
BEGIN
    FOR v_ids IN
        SELECT s.oid::regclass AS sequence, a.attrelid::regclass AS "table", a.attname AS "column"
          FROM pg_class s
          JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
          JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
         WHERE s.relkind = 'S' AND s.relnamespace = 'belfry'::regnamespace
         ORDER BY a.attrelid
    LOOP
        EXECUTE format('SELECT last_value + is_called::int FROM %s', v_ids.sequence) INTO v_next;
        EXECUTE format('SELECT max(%I) FROM %s WHERE %1$I >= $1', v_ids."column", v_ids."table") INTO v_highest USING v_next;
        CONTINUE WHEN v_highest IS NULL;
        EXECUTE format('SELECT last_value + is_called::int FROM %s', v_ids.sequence) INTO v_next;
        CONTINUE WHEN v_highest < v_next;
        PERFORM setval(v_ids.sequence, v_highest + c_left_out);
        v_advanced := v_advanced || v_ids."table"::text;
    END LOOP;
    RETURN v_advanced;
END $$;
REVOKE ALL ON FUNCTION belfry.advance_ids() FROM PUBLIC;
