-- Pauses ($4) or resumes the queue $1, its partition $2 or its group $3, for the reason $5; see belfry.change_pause.
SELECT c.changed, c.partition_id, c.queue_id, c.group_id, c.before, c.after
  FROM belfry.change_pause($1::text, $2::text, $3::text, $4::boolean, $5::text) AS c
