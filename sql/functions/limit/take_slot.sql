-- Takes a place for a lease that the caller makes in the same transaction. Returns NULL if it took one, and
-- otherwise the instant at which a lease ends at the latest. It never waits for another session.
--
--   p_limit   the greatest number of live leases
--   p_lease   the lease of the cursor of p_partition, as soon as this transaction commits
--
-- No claim makes more than p_limit leases live, for these reasons:
--
--   1. A lease begins only in a transaction that has written its id into a row of belfry.limit_slot. The number
--      of the row is between 1 and the limit, and a number has one row; see belfry.new_limit_row.
--   2. A claim replaces the lease of a row only if the lease is over, and it holds the lock of the row from
--      before its check until its commit. A lease that is over stays over, so an old snapshot does no harm.
--   3. A lease also ends by the clock. An extension at that instant might make it live again. An extension
--      holds the lock of the cursor, and compares the end of the lease with a clock that it reads under the lock.
--      So the check takes the lock too. If another session holds it, the lease counts as live.
--   4. After the limit was lowered, leases in rows above the limit may be live. Then only the rows up to v_usable are
--      used: as many as the limit, less the live leases in rows above v_usable. A claim at the same time that has a
--      newer snapshot may use more rows. Its sum is right too, and it includes the rows of this claim.
--
--   5. A snapshot of REPEATABLE READ may be older than the limit, or than the rows. Then belfry.pop fails with 40001: in
--      belfry.check_limits, at the lock of a row that has changed, or at the insert of a row that exists.
--
-- With a high limit, it first tries one row of the first 32 and one of the first 1,024. So few rows exist while few leases are live.
-- Then it reads all rows, from row 1 on if the limit is low, and otherwise from a random row on. So it reads few rows unless
-- nearly all leases are live.
CREATE FUNCTION belfry.take_slot(p_group bigint, p_tenant bigint, p_limit bigint, p_partition bigint, p_lease uuid, p_now timestamptz)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_usable bigint := p_limit;
    v_begin bigint;
    v_next timestamptz := 'infinity';
    v_first bigint;
    v_slot bigint;
    slots CURSOR FOR
        SELECT r.slot, s.ctid, s.partition_id, s.lease_id, c.lease_until
          FROM (SELECT generate_series(0, v_usable - 1) AS i) AS i -- makes the numbers one by one, unlike a function in FROM
         CROSS JOIN LATERAL (SELECT (v_begin + i.i) % v_usable + 1 AS slot) AS r
          LEFT JOIN LATERAL (
                SELECT s.ctid, s.partition_id, s.lease_id FROM belfry.limit_slot s
                 WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot >= r.slot AND s.slot <= r.slot
                 ORDER BY s.slot DESC LIMIT 1) AS s ON true
          LEFT JOIN LATERAL (
                SELECT CASE WHEN c.lease_id = s.lease_id THEN c.lease_until END AS lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true;
    k record;
BEGIN
    FOREACH v_first IN ARRAY CASE WHEN p_limit > 1024 THEN '{32,1024}' WHEN p_limit > 32 THEN '{32}' ELSE '{}'::bigint[] END LOOP
        v_slot := floor(random() * v_first)::bigint + 1;
        SELECT s.ctid, s.partition_id, s.lease_id, c.lease_until,
               EXISTS (SELECT FROM belfry.limit_slot o WHERE o.group_id = p_group AND o.tenant_id = p_tenant AND o.slot > p_limit) AS lowered
          INTO k
          FROM (SELECT s.ctid, s.partition_id, s.lease_id FROM belfry.limit_slot s
                 WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot >= v_slot AND s.slot <= v_slot
                 ORDER BY s.slot DESC LIMIT 1) AS s
          LEFT JOIN LATERAL (
                SELECT CASE WHEN c.lease_id = s.lease_id THEN c.lease_until END AS lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true;
        EXIT WHEN k.lowered IS NOT false; -- the row is missing, or the limit was lowered
        CONTINUE WHEN k.lease_until > p_now;
        IF belfry.occupy_slot(p_group, p_tenant, v_slot, p_partition, p_lease, k.ctid, k.partition_id, k.lease_id, k.lease_until) THEN
            RETURN NULL;
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM belfry.limit_slot s WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot > p_limit) THEN
        SELECT u.usable, coalesce(u.next, 'infinity') INTO v_usable, v_next FROM belfry.usable_slots(p_group, p_tenant, p_limit, p_now) AS u;
        IF v_usable = 0 THEN
            RETURN v_next;
        END IF;
    END IF;
    v_begin := CASE WHEN v_slot <= v_usable THEN v_slot - 1 WHEN v_usable > 16 THEN floor(random() * v_usable)::bigint ELSE 0 END;
    OPEN slots;
    LOOP
        FETCH slots INTO k;
        EXIT WHEN NOT FOUND;
        IF k.lease_until > p_now THEN
            v_next := least(v_next, k.lease_until);
        ELSIF belfry.occupy_slot(p_group, p_tenant, k.slot, p_partition, p_lease, k.ctid, k.partition_id, k.lease_id, k.lease_until) THEN
            CLOSE slots;
            RETURN NULL;
        ELSE
            -- Another claim has just taken the row. If it is rolled back, nobody announces that.
            v_next := least(v_next, p_now + interval '1 second');
        END IF;
    END LOOP;
    CLOSE slots;
    RETURN v_next;
END $$;
