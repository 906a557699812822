-- The index by transaction had the id as its second column. When the inbox had just been
-- vacuumed empty, the planner took it, in place of the primary key, to find rows by
-- their ids, which goes through all of the index for each row: a burst of 50,000 rows
-- then took until the next vacuum. An index without the id cannot be taken for that.
DROP INDEX belfry.inbox_xid;
CREATE INDEX inbox_xid ON belfry.inbox (xid);
