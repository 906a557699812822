DROP INDEX belfry.inbox_xid;
CREATE INDEX inbox_xid ON belfry.inbox (xid, id);
