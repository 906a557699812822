-- Pauses ($2) or resumes the schedule $1, for the reason $3. Returns whether this changed the schedule. The instants of a
-- pause are missed instants: after the resume, the server treats them as the column missed says.
WITH found AS MATERIALIZED (
    SELECT s.id, s.paused FROM belfry.schedule s WHERE s.name = $1::text FOR NO KEY UPDATE
), changed AS (
    UPDATE belfry.schedule s
       SET paused = $2::boolean, pause_reason = CASE WHEN $2::boolean THEN $3::text END, changed_at = clock_timestamp(),
           due_at = CASE WHEN NOT $2::boolean AND s.error IS NULL THEN '-infinity'::timestamptz END
      FROM found f WHERE s.id = f.id AND f.paused <> $2::boolean
)
SELECT f.paused <> $2::boolean FROM found f
