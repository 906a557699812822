-- Adds outcomes to a row of belfry.breaker_count that no other session has locked. p_run is the number of failures after the last
-- completed message. Reports whether it counted: if all eight rows are locked, it does not wait, and the outcomes are not counted.
--
-- With p_only_runs, only failures in a row matter. Then completed messages write nothing while no row has a failure since the
-- latest success.
CREATE FUNCTION belfry.count_part(
    p_group bigint, p_window interval, p_completed bigint, p_failed bigint, p_run bigint, p_at timestamptz, p_only_runs boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    c_parts constant bigint := 8;
    v_number bigint := floor(extract(epoch FROM p_at) / extract(epoch FROM p_window));
    v_success timestamptz;
    v_last_failure timestamptz;
    v_part bigint;
    c record;
BEGIN
    IF p_completed = 0 AND p_failed = 0 THEN
        RETURN false;
    END IF;
    SELECT max(o.last_success), max(o.run_last) FILTER (WHERE o.run > 0) INTO v_success, v_last_failure
      FROM belfry.breaker_count o WHERE o.group_id = p_group;
    IF p_only_runs AND p_failed = 0 AND (v_last_failure >= v_success) IS NOT TRUE THEN
        RETURN false;
    END IF;
    FOR i IN 0 .. c_parts - 1 LOOP
        v_part := (pg_backend_pid() + i) % c_parts;
        SELECT o.ctid, o.* INTO c
          FROM belfry.breaker_count o
         WHERE o.group_id = p_group AND o.part = v_part
           FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            -- The failures before the latest success do not count any more.
            c.run := CASE WHEN p_completed > 0 OR c.run_began < v_success THEN 0 ELSE c.run END;
            UPDATE belfry.breaker_count o
               SET window_number = v_number,
                   before_completed = CASE c.window_number WHEN v_number THEN c.before_completed WHEN v_number - 1 THEN c.completed ELSE 0 END,
                   before_failed = CASE c.window_number WHEN v_number THEN c.before_failed WHEN v_number - 1 THEN c.failed ELSE 0 END,
                   completed = CASE WHEN c.window_number = v_number THEN c.completed ELSE 0 END + p_completed,
                   failed = CASE WHEN c.window_number = v_number THEN c.failed ELSE 0 END + p_failed,
                   run = c.run + p_run,
                   run_began = CASE WHEN c.run = 0 AND p_run > 0 THEN p_at ELSE c.run_began END,
                   run_last = CASE WHEN p_run > 0 THEN p_at ELSE c.run_last END,
                   last_success = CASE WHEN p_completed > 0 THEN p_at ELSE c.last_success END
             WHERE o.ctid = c.ctid;
            RETURN true;
        ELSIF NOT EXISTS (SELECT FROM belfry.breaker_count o WHERE o.group_id = p_group AND o.part = v_part)
            AND belfry.new_limit_row(4, p_group, 0, v_part)
        THEN
            INSERT INTO belfry.breaker_count (group_id, part, window_number, completed, failed, before_completed, before_failed,
                                              run, run_began, run_last, last_success)
            VALUES (p_group, v_part, v_number, p_completed, p_failed, 0, 0, p_run, p_at,
                    CASE WHEN p_run > 0 THEN p_at ELSE '-infinity' END, CASE WHEN p_completed > 0 THEN p_at ELSE '-infinity' END);
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;
