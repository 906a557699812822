-- Returns the counted outcomes of a group: the failures in a row, and the completed and failed messages of the last window.
--
-- completed and failed are estimates: the outcomes of the current window, and the part of the window before that the last
-- p_window covers. If transactions count at the same time, the run may be too small, and never too large: a
-- row whose run began before the latest success and ended after it counts as one failure.
CREATE FUNCTION belfry.judge_count(p_group bigint, p_window interval, p_now timestamptz, OUT run bigint, OUT completed float8, OUT failed float8)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(CASE WHEN c.run_began >= s.last THEN c.run WHEN c.run_last >= s.last THEN least(c.run, 1) ELSE 0 END), 0)::bigint,
           coalesce(sum(CASE c.window_number WHEN w.number THEN c.completed + c.before_completed * w.rest
                                             WHEN w.number - 1 THEN c.completed * w.rest ELSE 0 END), 0),
           coalesce(sum(CASE c.window_number WHEN w.number THEN c.failed + c.before_failed * w.rest
                                             WHEN w.number - 1 THEN c.failed * w.rest ELSE 0 END), 0)
      FROM belfry.breaker_count c
     CROSS JOIN (SELECT max(o.last_success) AS last FROM belfry.breaker_count o WHERE o.group_id = p_group) AS s
     CROSS JOIN (SELECT floor(x.n)::bigint AS number, 1 - (x.n - floor(x.n)) AS rest
                   FROM (SELECT (extract(epoch FROM p_now) / extract(epoch FROM p_window))::float8 AS n) AS x) AS w
     WHERE c.group_id = p_group
$$;
