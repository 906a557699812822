-- Lists the groups whose deletion has begun, with their queues.
SELECT d.group_id, d.queue_id
  FROM belfry.group_deleted d
 ORDER BY d.group_id
