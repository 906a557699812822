-- Moves the cursors of group $2 in partitions $1, which ascend, behind the last
-- message stored at or before $3, as migration 000007 tells. A wake must follow.
-- Returns where the cursors are.
SELECT s.place
  FROM belfry.seek_cursors($1::bigint[], $2::bigint, $3::timestamptz) AS s(place)
