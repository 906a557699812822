-- Returns the id of the newest rejected row of the inbox; 0: there is none.
SELECT coalesce(max(r.id), 0) AS id FROM belfry.inbox_rejected r
