-- Lists the groups whose deletion has begun, with their queues.
SELECT d.queue_id, d.group_id
  FROM belfry.group_deleted d
 ORDER BY d.group_id
