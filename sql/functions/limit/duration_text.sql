-- Returns a duration as Go writes it, without units that are 0: 1m30s, 250ms. It has whole microseconds.
CREATE FUNCTION belfry.duration_text(p interval) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN t.us < 1000000 THEN trim_scale(t.us / 1000) || 'ms'
                ELSE coalesce(nullif(div(t.us, 3600000000), 0) || 'h', '') || coalesce(nullif(div(t.us, 60000000) % 60, 0) || 'm', '')
                     || coalesce(nullif(trim_scale(t.us % 60000000 / 1000000), 0) || 's', '') END
      FROM (SELECT (extract(epoch FROM p) * 1000000)::numeric AS us) AS t
$$;
