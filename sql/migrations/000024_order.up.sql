-- The walk of migration 000011 relies on the order of versions in an index. Where
-- equal keys share one entry (a posting list, made when a page of the index is full)
-- a walk from the high end gives the places of that entry from the lowest up, and
-- met 138 old versions of a partition before the one it sees. In this index keys are
-- equal only for versions of one row, and it gets one only when the row leaves a full
-- page, so apart they take no room to speak of. Cursors leave an entry with every
-- update: cursor_place goes on sharing them, and a walk there ends with one list.
ALTER INDEX belfry.partition_id SET (deduplicate_items = off);
