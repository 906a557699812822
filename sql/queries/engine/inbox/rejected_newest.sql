-- Returns the id of the newest rejected row of the inbox, or 0 if there is no rejected row.
SELECT coalesce(max(r.id), 0) AS id FROM belfry.inbox_rejected r
