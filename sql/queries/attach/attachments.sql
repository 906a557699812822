-- Lists the attached tables with their failures.
SELECT a."table", a.queue, a.events, a.key, a.condition, a.payload, a.columns, a.strict, a.attached_by::text, a.attached_at,
       a.triggers, a.failures, a.last_failed_at, a.last_failure
  FROM belfry.attachments a
 ORDER BY a."table", a.queue
