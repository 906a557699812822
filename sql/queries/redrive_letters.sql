-- Puts the dead letters with the ids $1 back, as migration 000008 tells.
SELECT r.group_id, r.partition_id, r.redriven, r.ready_in
  FROM belfry.redrive_letters($1::bigint[]) AS r
