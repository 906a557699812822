-- Puts the dead letters with the ids $1 back, as migration 000008 tells, if this is life $2
-- of the database, in which they have them. The table is named here, so it is locked before
-- its life is looked at.
SELECT r.group_id, r.partition_id, r.redriven, r.ready_in
  FROM belfry.redrive_dead_letters(
       CASE WHEN (SELECT p.id FROM belfry.partition p LIMIT 0) IS NULL AND belfry.epoch() = $2::bigint THEN $1::bigint[] ELSE '{}' END) AS r
