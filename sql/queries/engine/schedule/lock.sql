-- Locks the schedule $1 until the end of the transaction, and returns its queue.
SELECT s.queue FROM belfry.schedule s WHERE s.name = $1::text FOR NO KEY UPDATE
