-- Moves the cursors of group $2 in partitions $1 to the instant $3; see belfry.seek_cursors. A wake must
-- follow the commit. Returns the partitions with the old and the new positions. $4: the epoch in which the ids are valid. If the epoch
-- differs, no cursor moves. $5 and $6: the
-- positions of a seek that is undone, or NULL. The subselect locks the table before the epoch is read.
SELECT s.moved, s.place_before, s.place
  FROM belfry.seek_cursors(CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $4::bigint THEN $1::bigint[] ELSE '{}' END,
                           $2::bigint, $3::timestamptz, $5::bigint[], $6::bigint[]) AS s
