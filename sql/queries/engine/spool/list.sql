-- Lists the spools that are not empty.
SELECT s.id, s.host, s.messages, s.rejected, s.bytes, s.changed_at FROM belfry.spool s ORDER BY s.host, s.id
