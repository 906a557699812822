ALTER TABLE belfry.partition SET (fillfactor = 40);

CREATE OR REPLACE FUNCTION belfry.tell_ready(p_group bigint, p_partition bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF lower(coalesce(current_setting('belfry.notify', true), '')) NOT IN ('off', 'false', 'no', '0') THEN
        PERFORM pg_notify('belfry', format('1;i=00000000-0000-0000-0000-000000000000;r=%s/%s@0', p_group, p_partition));
    END IF;
END $$;
