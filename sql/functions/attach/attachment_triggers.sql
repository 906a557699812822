-- Returns the triggers of an attachment, and their functions. For a partitioned table the result
-- includes the row trigger.
--
-- The owner of a table can give any name to a trigger, and the caller of detach may have more rights
-- than the owner. So function_oid is NULL for a function of another owner, and detach does not drop it.
-- Functions of an earlier owner of the table stay, and that owner can drop them.
CREATE FUNCTION belfry.attachment_triggers(p_target regclass, p_queue text DEFAULT NULL)
RETURNS TABLE (trigger_name name, function_oid regprocedure, queue text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT t.tgname, CASE WHEN w.ours THEN f.oid::regprocedure END, coalesce(w.queue, p_queue, t.tgname::text)
      FROM pg_trigger t
      JOIN pg_class c ON c.oid = t.tgrelid
      JOIN pg_proc f ON f.oid = t.tgfoid
     -- The literal of the queue from attachment_function. Quotes are doubled; after E backslashes too.
     CROSS JOIN LATERAL (
            SELECT substring(f.prosrc FROM 'INSERT INTO belfry\.inbox \(queue, partition, payload\)\s+SELECT\s+(E?''(?:[^'']|'''')*''), ') AS literal
     ) AS l
     CROSS JOIN LATERAL (
            SELECT f.proowner = c.relowner AND (f.prosecdef OR f.proname LIKE '%\_rows') AND f.proname LIKE 'belfry\_%' AS ours,
                   CASE WHEN l.literal LIKE 'E%' THEN replace(replace(substr(l.literal, 3, length(l.literal) - 3), '''''', ''''), '\\', '\')
                        ELSE replace(substr(l.literal, 2, length(l.literal) - 2), '''''', '''') END AS queue
     ) AS w
     WHERE t.tgrelid = p_target AND NOT t.tgisinternal AND t.tgparentid = 0
       AND (CASE WHEN p_queue IS NULL THEN t.tgname ~ '^belfry_[0-9a-f]{12}_(insert|update|delete|rows_[0-9]+)$'
                 ELSE t.tgname LIKE 'belfry\_' || left(md5(p_queue), 12) || '\_%' END
            OR w.ours AND w.queue = coalesce(p_queue, w.queue))
     ORDER BY t.tgname
$$;
