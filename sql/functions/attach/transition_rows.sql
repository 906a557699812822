-- Returns a SELECT in parentheses with the rows of a transition table of p_table. Virtual columns are
-- NULL in a transition table, so the SELECT computes them. If p_table has partitions or children, the
-- table of a row is unknown, so tableoid is NULL.
--
-- The SET clauses make the text of a constant independent of the session. COLLATE needs a right in the
-- schema of the collation, so only collations that differ from the type's collation are written.
CREATE FUNCTION belfry.transition_rows(p_table oid, p_transition name) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
    SELECT format('(SELECT %s FROM (SELECT *, %L::oid AS tableoid FROM %I) AS r)', string_agg(
               CASE WHEN a.attgenerated = 'v' THEN format('(%s)::%s%s AS %I', pg_get_expr(d.adbin, d.adrelid), format_type(a.atttypid, a.atttypmod),
                        (SELECT format(' COLLATE %I.%I', n.nspname, o.collname) FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace
                           JOIN pg_type y ON y.oid = a.atttypid AND y.typcollation <> o.oid WHERE o.oid = a.attcollation), a.attname)
                    ELSE format('r.%I', a.attname) END, ', ' ORDER BY a.attnum),
               CASE WHEN NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = p_table) THEN p_table END, p_transition)
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped
$$;
