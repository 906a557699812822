-- Lists the groups of all queues. The column kept says that only the subscription of a deleted group is left, unless it has a cursor.
SELECT g.id, g.queue_id, g.name, g.mode, g.start_at, g.created_at, g.paused, g.joined_upto IS NOT NULL AS joining,
       g.kept AND NOT g.whole_queue AS kept
  FROM belfry.consumer_group g
 ORDER BY g.id
