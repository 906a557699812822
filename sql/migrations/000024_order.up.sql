-- The walk of migration 000011 relies on the order of versions in an index. Where
-- equal keys share one entry (a posting list, made when a page of the index is full)
-- a walk from the high end gives the places of that entry from the lowest up, and
-- met 138 old versions before the one it sees. Keys of these two indexes are equal
-- only for versions of one row, so apart they take no room that a vacuum does not
-- give back.
ALTER INDEX belfry.partition_id SET (deduplicate_items = off);
ALTER INDEX belfry.cursor_place SET (deduplicate_items = off);
