-- Moves the cursors of group $2 in partitions $1, which ascend, behind the last
-- message stored at or before $3, as migration 000007 tells. A wake must follow.
-- Returns where the cursors are. $4: the life of the database in which $1 and $2 are
-- what they are meant to be; in another one nothing is moved. The table is named here, so it is
-- locked before its life is looked at.
SELECT s.place
  FROM belfry.seek_cursors(CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $4::bigint THEN $1::bigint[] ELSE '{}' END,
                           $2::bigint, $3::timestamptz) AS s(place)
