-- Reports for pushes and for consumers whether grants are checked.
SELECT EXISTS (SELECT FROM belfry.queue_grant g WHERE g.kind = 'push') AS push,
       EXISTS (SELECT FROM belfry.queue_grant g WHERE g.kind = 'consume') AS consume
