-- Lists rows of the audit, the newest first. Filter, each may be NULL: $1 action, $2 queue, $3 group, $4
-- subject, $5 and $6 first and last instant, $7 and $8 the instant and id after which the list
-- continues. $9: rows at most. $10: LIKE patterns of queue names (NULL: any). $11: the greatest number of
-- cursors of a seek that can be undone. Only one part of the UNION
-- runs: the part whose index fits the filter. Its bounds and its order use the column of the filter, so
-- the planner can only choose that index, whatever the statistics are.
SELECT a.id, a.at, a.subject, a.token_id, a.address, a.request_id, a.action, a.queue, a.partition, a.consumer_group, a.transaction_id,
       a.parameters, a.counts, a.result, a.undoable, a.undone_by
  FROM ((SELECT k.id, k.at FROM belfry.audit k
         WHERE $2::text IS NOT NULL AND (k.queue, k.at) >= ($2::text, coalesce($5::timestamptz, '-infinity'))
           AND (k.queue, k.at) <= ($2::text, coalesce(least($6::timestamptz, $7::timestamptz), 'infinity'))
           AND ($3::text IS NULL OR k.consumer_group = $3::text) AND ($4::text IS NULL OR k.subject = $4::text) AND ($1::text IS NULL OR k.action = $1::text)
           AND ($7::timestamptz IS NULL OR (k.at, k.id) < ($7::timestamptz, $8::uuid))
           AND ($10::text[] IS NULL OR k.queue COLLATE "C" LIKE ANY ($10::text[]))
         ORDER BY k.queue DESC, k.at DESC, k.id DESC
         LIMIT $9::bigint)
        UNION ALL
        (SELECT k.id, k.at FROM belfry.audit k
         WHERE $2::text IS NULL AND $3::text IS NOT NULL AND (k.consumer_group, k.at) >= ($3::text, coalesce($5::timestamptz, '-infinity'))
           AND (k.consumer_group, k.at) <= ($3::text, coalesce(least($6::timestamptz, $7::timestamptz), 'infinity'))
           AND ($4::text IS NULL OR k.subject = $4::text) AND ($1::text IS NULL OR k.action = $1::text)
           AND ($7::timestamptz IS NULL OR (k.at, k.id) < ($7::timestamptz, $8::uuid))
           AND ($10::text[] IS NULL OR k.queue COLLATE "C" LIKE ANY ($10::text[]))
         ORDER BY k.consumer_group DESC, k.at DESC, k.id DESC
         LIMIT $9::bigint)
        UNION ALL
        (SELECT k.id, k.at FROM belfry.audit k
         WHERE $2::text IS NULL AND $3::text IS NULL AND $4::text IS NOT NULL AND (k.subject, k.at) >= ($4::text, coalesce($5::timestamptz, '-infinity'))
           AND (k.subject, k.at) <= ($4::text, coalesce(least($6::timestamptz, $7::timestamptz), 'infinity'))
           AND ($1::text IS NULL OR k.action = $1::text)
           AND ($7::timestamptz IS NULL OR (k.at, k.id) < ($7::timestamptz, $8::uuid))
           AND ($10::text[] IS NULL OR k.queue COLLATE "C" LIKE ANY ($10::text[]))
         ORDER BY k.subject DESC, k.at DESC, k.id DESC
         LIMIT $9::bigint)
        UNION ALL
        (SELECT k.id, k.at FROM belfry.audit k
         WHERE $2::text IS NULL AND $3::text IS NULL AND $4::text IS NULL AND $1::text IS NOT NULL AND (k.action, k.at) >= ($1::text, coalesce($5::timestamptz, '-infinity'))
           AND (k.action, k.at) <= ($1::text, coalesce(least($6::timestamptz, $7::timestamptz), 'infinity'))
           AND ($7::timestamptz IS NULL OR (k.at, k.id) < ($7::timestamptz, $8::uuid))
           AND ($10::text[] IS NULL OR k.queue COLLATE "C" LIKE ANY ($10::text[]))
         ORDER BY k.action DESC, k.at DESC, k.id DESC
         LIMIT $9::bigint)
        UNION ALL
        (SELECT k.id, k.at FROM belfry.audit k
         WHERE $2::text IS NULL AND $3::text IS NULL AND $4::text IS NULL AND $1::text IS NULL
           AND k.at >= coalesce($5::timestamptz, '-infinity') AND k.at <= coalesce(least($6::timestamptz, $7::timestamptz), 'infinity')
           AND ($7::timestamptz IS NULL OR (k.at, k.id) < ($7::timestamptz, $8::uuid))
           AND ($10::text[] IS NULL OR k.queue COLLATE "C" LIKE ANY ($10::text[]))
         ORDER BY k.at DESC, k.id DESC
         LIMIT $9::bigint)) AS page
 CROSS JOIN LATERAL (
        SELECT b.id, b.at, b.subject, b.token_id, b.address, b.request_id, b.action, b.queue, b.partition, b.consumer_group, b.transaction_id,
               b.parameters, b.counts, b.result,
               coalesce(u.replaced_by IS NULL AND u.undone_by IS NULL AND u.moved <= $11::bigint AND u.audit_id IS NOT NULL, false) AS undoable, u.undone_by
          FROM belfry.audit b LEFT JOIN belfry.audit_undo u ON u.audit_id = b.id WHERE b.id = page.id OFFSET 0) AS a
 ORDER BY a.at DESC, a.id DESC
