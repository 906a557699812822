-- Returns how many rows of belfry.limit_slot a group may use while leases in rows above its limit are live, and
-- when one of these leases ends. It deletes rows above the limit whose lease is over, unless a claim has locked them.
-- belfry.take_slot has the proof.
CREATE FUNCTION belfry.usable_slots(
    p_group bigint, p_tenant bigint, p_limit bigint, p_now timestamptz, OUT usable bigint, OUT next timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    v_above bigint := 0; -- live leases in rows above usable
    k record;
BEGIN
    usable := NULL;
    FOR k IN
        SELECT s.ctid, s.slot, s.partition_id, s.lease_id, c.lease_until
          FROM belfry.limit_slot s
          LEFT JOIN LATERAL (
                SELECT CASE WHEN c.lease_id = s.lease_id THEN c.lease_until END AS lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true
         WHERE s.group_id = p_group AND s.tenant_id = p_tenant
         ORDER BY s.slot DESC
    LOOP
        EXIT WHEN k.slot <= p_limit AND k.slot + v_above <= p_limit;
        IF k.lease_until <= p_now AND belfry.lease_is_over(k.partition_id, p_group, k.lease_id) THEN
            k.lease_until := NULL;
        END IF;
        IF k.lease_until IS NULL AND k.slot > p_limit THEN
            DELETE FROM belfry.limit_slot s
             WHERE s.ctid = (SELECT o.ctid FROM belfry.limit_slot o WHERE o.ctid = k.ctid AND o.lease_id = k.lease_id FOR UPDATE SKIP LOCKED);
            IF FOUND THEN
                DELETE FROM belfry.limit_number n
                 WHERE n.group_id = p_group AND n.tenant_id = p_tenant AND n.kind = 1 AND n.number = k.slot;
                CONTINUE;
            END IF;
        END IF;
        IF k.lease_until IS NOT NULL OR k.slot > p_limit THEN
            v_above := v_above + 1;
            next := least(next, greatest(k.lease_until, p_now + interval '10 milliseconds'));
        END IF;
    END LOOP;
    usable := greatest(p_limit - v_above, 0);
END $$;
