-- Lists the groups whose join of their queue has not ended.
SELECT g.id, belfry.epoch() AS epoch FROM belfry.consumer_group g WHERE g.joined_upto IS NOT NULL ORDER BY g.id
