-- Redrives the dead letters with the ids $1; see belfry.redrive_dead_letters. $2: the epoch in which the
-- ids are valid. If the epoch differs, no dead letter is redriven. The subselect locks the table before
-- the epoch is read.
SELECT r.group_id, r.partition_id, r.redriven, r.ready_in
  FROM belfry.redrive_dead_letters(
       CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $2::bigint THEN $1::bigint[] ELSE '{}' END) AS r
