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
-- It begins at row 1 if the limit is low, so that few rows exist. Otherwise it begins at random, so it reads few rows
-- unless nearly all leases are live.
CREATE FUNCTION belfry.take_slot(p_group bigint, p_tenant bigint, p_limit bigint, p_partition bigint, p_lease uuid, p_now timestamptz)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_usable bigint := p_limit;
    v_begin bigint;
    v_next timestamptz := 'infinity';
    v_free boolean;
    slots CURSOR FOR
        SELECT n.slot, s.ctid, s.partition_id, s.lease_id, c.lease_until
          FROM (SELECT generate_series(0, v_usable - 1) AS i) AS i -- makes the numbers one by one, unlike a function in FROM
         CROSS JOIN LATERAL (SELECT (v_begin + i.i) % v_usable + 1 AS slot) AS n
          LEFT JOIN LATERAL (
                SELECT s.ctid, s.partition_id, s.lease_id FROM belfry.limit_slot s
                 WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot >= n.slot AND s.slot <= n.slot
                 ORDER BY s.slot DESC LIMIT 1) AS s ON true
          LEFT JOIN LATERAL (
                SELECT CASE WHEN c.lease_id = s.lease_id THEN c.lease_until END AS lease_until FROM belfry.cursor c
                 WHERE c.partition_id = s.partition_id AND c.group_id >= p_group AND c.group_id <= p_group
                 ORDER BY c.group_id DESC LIMIT 1) AS c ON true;
    k record;
BEGIN
    IF EXISTS (SELECT FROM belfry.limit_slot s WHERE s.group_id = p_group AND s.tenant_id = p_tenant AND s.slot > p_limit) THEN
        SELECT u.usable, coalesce(u.next, 'infinity') INTO v_usable, v_next FROM belfry.usable_slots(p_group, p_tenant, p_limit, p_now) AS u;
        IF v_usable = 0 THEN
            RETURN v_next;
        END IF;
    END IF;
    v_begin := CASE WHEN v_usable > 16 THEN floor(random() * v_usable)::bigint ELSE 0 END;
    OPEN slots;
    LOOP
        FETCH slots INTO k;
        EXIT WHEN NOT FOUND;
        IF k.lease_until > p_now THEN
            v_next := least(v_next, k.lease_until);
            CONTINUE;
        ELSIF k.ctid IS NULL THEN
            v_free := belfry.new_limit_row(1, p_group, p_tenant, k.slot);
            IF v_free THEN
                INSERT INTO belfry.limit_slot (group_id, tenant_id, slot, partition_id, lease_id)
                VALUES (p_group, p_tenant, k.slot, p_partition, p_lease);
                CLOSE slots;
                RETURN NULL;
            END IF;
        ELSE
            -- A row that has changed since the read has another lease, and does not match.
            PERFORM FROM belfry.limit_slot s WHERE s.ctid = k.ctid AND s.lease_id = k.lease_id FOR NO KEY UPDATE SKIP LOCKED;
            v_free := FOUND;
            IF v_free AND k.lease_until IS NOT NULL THEN
                v_free := belfry.lease_is_over(k.partition_id, p_group, k.lease_id);
            END IF;
            IF v_free THEN
                UPDATE belfry.limit_slot s SET partition_id = p_partition, lease_id = p_lease WHERE s.ctid = k.ctid;
                CLOSE slots;
                RETURN NULL;
            END IF;
        END IF;
        -- Another claim has just taken the row. If it is rolled back, nobody announces that.
        v_next := least(v_next, p_now + interval '1 second');
    END LOOP;
    CLOSE slots;
    RETURN v_next;
END $$;
