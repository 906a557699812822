-- Creates the cursors of group $1 in the next $2 partitions; see belfry.join_page. $3: the epoch in
-- which the id is valid. If the epoch differs, no cursor is created. The subselect locks the table
-- before the epoch is read.
SELECT j.done, j.unready
  FROM belfry.join_page(CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $3::bigint
                             THEN $1::bigint ELSE 0 END, $2::bigint) AS j
