-- Moves the cursors of group $2 in partitions $1 to the instant $3; see belfry.seek_cursors. A wake must
-- follow the commit. Returns the new positions. $4: the epoch in which the ids are valid. If the epoch
-- differs, no cursor moves. The subselect locks the table before the epoch is read.
SELECT s.place
  FROM belfry.seek_cursors(CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $4::bigint THEN $1::bigint[] ELSE '{}' END,
                           $2::bigint, $3::timestamptz) AS s(place)
