-- Lists the groups that still join their queue. The ids are valid in the returned epoch.
SELECT g.id, belfry.epoch() AS epoch FROM belfry.consumer_group g WHERE g.joined_upto IS NOT NULL ORDER BY g.id
