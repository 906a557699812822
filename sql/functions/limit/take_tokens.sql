-- Takes up to p_want tokens of a rate, one for each message. granted is the number of tokens, and next_at the
-- instant of the next token if none is left afterwards. If p_spend is false, the call takes nothing and only
-- reserves the tokens: this transaction can take them later.
--
-- The bucket has parts, each with its share of the rate and of the burst. A part that is full at full_at has
-- burst - (full_at - now) / interval tokens, where interval is the time for one token. This is the generic cell rate
-- algorithm (ITU-T I.371). So in every time t, all claims together get at most p_burst + t * p_messages / p_per.
-- A session begins with the part of its number and skips parts that another session has locked. So far from the limit, claims that
-- run at the same time do not wait for each other.
--
-- If it finds no token and another session has locked a part, it waits up to 50 ms for that part. So it cannot
-- be part of a deadlock, and a claim that is rolled back delays the others only a little.
CREATE FUNCTION belfry.take_tokens(
    p_group bigint, p_tenant bigint, p_messages bigint, p_per interval, p_burst bigint, p_want bigint, p_spend boolean,
    OUT granted bigint, OUT next_at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    v_parts bigint := belfry.bucket_parts(p_tenant, p_burst);
    v_microseconds float8 := extract(epoch FROM p_per) * 1e6 * v_parts / p_messages; -- for one token of a part
    v_begin bigint := pg_backend_pid() % v_parts;
    v_now timestamptz := clock_timestamp();
    v_part bigint;
    v_burst bigint; -- of the part
    v_full_at timestamptz;
    v_taken_at timestamptz;
    v_place tid;
    v_left bigint;
    v_n bigint;
    v_busy bigint; -- a part that another session has locked
    v_waited boolean := false;
    v_i bigint := 0;
BEGIN
    granted := 0;
    WHILE v_i < v_parts AND granted < p_want LOOP
        v_part := (v_begin + v_i) % v_parts;
        v_i := v_i + 1;
        v_burst := p_burst / v_parts + (v_part < p_burst % v_parts)::integer;
        IF v_waited THEN
            v_part := v_busy;
            v_i := v_parts;
            v_burst := p_burst / v_parts + (v_part < p_burst % v_parts)::integer;
            PERFORM belfry.wait_for_bucket(p_group, p_tenant, v_part);
            v_now := clock_timestamp();
        END IF;
        SELECT b.ctid, b.full_at, b.taken_at INTO v_place, v_full_at, v_taken_at
          FROM belfry.limit_bucket b
         WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part >= v_part AND b.part <= v_part
         ORDER BY b.part DESC LIMIT 1 -- reads the newest version first
           FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            PERFORM FROM belfry.limit_bucket b
              WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part >= v_part AND b.part <= v_part
              ORDER BY b.part DESC LIMIT 1;
            IF FOUND OR NOT belfry.new_limit_row(2, p_group, p_tenant, v_part)
            THEN
                v_busy := v_part;
            ELSE
                INSERT INTO belfry.limit_bucket (group_id, tenant_id, part, full_at, taken_at)
                VALUES (p_group, p_tenant, v_part, v_now, v_now)
                RETURNING ctid, full_at, taken_at INTO v_place, v_full_at, v_taken_at;
            END IF;
        END IF;
        IF v_place IS NOT NULL THEN
            -- taken_at: with the rate of now, the part was at most empty then. This matters after the rate was raised.
            v_full_at := least(v_full_at, v_taken_at + make_interval(secs => (ceil(v_burst * v_microseconds) + 1) / 1e6));
            v_left := v_burst - ceil(greatest(extract(epoch FROM v_full_at - v_now) * 1e6, 0) / v_microseconds - 1e-9)::bigint;
            v_n := greatest(least(v_left, p_want - granted), 0);
            IF v_n > 0 AND p_spend THEN
                v_full_at := greatest(v_full_at, v_now) + make_interval(secs => ceil(v_n * v_microseconds) / 1e6);
                UPDATE belfry.limit_bucket b SET full_at = v_full_at, taken_at = greatest(b.taken_at, v_now) WHERE b.ctid = v_place;
            END IF;
            granted := granted + v_n;
            IF v_left - v_n > 0 THEN
                next_at := v_now;
            ELSE
                next_at := least(next_at, greatest(v_full_at, v_now) - make_interval(secs => floor((v_burst - 1) * v_microseconds) / 1e6));
            END IF;
        END IF;
        IF granted = 0 AND v_i = v_parts AND v_busy IS NOT NULL AND NOT v_waited THEN
            v_waited := true;
            v_i := v_parts - 1;
        END IF;
    END LOOP;
    IF v_i < v_parts OR next_at <= v_now THEN
        next_at := NULL; -- a part may have tokens
    ELSIF v_busy IS NOT NULL THEN
        next_at := least(next_at, v_now + interval '50 milliseconds');
    END IF;
END $$;
