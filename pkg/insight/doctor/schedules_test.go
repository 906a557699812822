package doctor_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// The doctor finds the few schedules that need an operator among 100,000 others.
func TestSchedulesThatNeedAnOperator(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	exec := func(statement string) { enginetest.Exec(t, conn, statement) }
	requireFindings := func(late, broken, queues string) {
		t.Helper()
		want := map[string]string{"schedules_late": late, "schedule_errors": broken, "schedule_queues": queues}
		cfg := doctor.Config{URL: setting.Secret(dsn), NoServer: "none", Now: time.Now, Limits: doctor.DefaultLimits()}
		for _, f := range doctor.New(cfg).Run(t.Context()).Checks {
			if text, ok := want[f.Code]; ok && text == "" {
				require.Equal(t, doctor.OK, f.Result, f.Found)
			} else if ok {
				require.NotEqual(t, doctor.OK, f.Result, f.Found)
				require.Contains(t, f.Found, text)
				require.NotEmpty(t, f.Do)
			}
		}
	}
	exec(`INSERT INTO belfry.queue (name, max_size) VALUES ('free', 10), ('limited', 2), ('stopped', 0), ('unused', 0)`)
	exec(`INSERT INTO belfry.schedule (name, queue, every_seconds, payload, handled_to, next_at, due_at, scheduled_by)
		SELECT 'many-' || n, CASE n % 3 WHEN 0 THEN 'free' WHEN 1 THEN 'queue-' || n ELSE 'stopped' END, 3600, '{}', now(), now() + interval '1 hour',
		       CASE WHEN n % 3 < 2 THEN now() + interval '1 hour' END, current_user::regrole FROM generate_series(1, 100000) n`)
	exec(`INSERT INTO belfry.schedule (name, queue, every_seconds, payload, handled_to, scheduled_by) VALUES ('new', 'free', 1, '{}', now(), current_user::regrole)`)
	exec(`UPDATE belfry.queue SET paused = true WHERE name IN ('stopped', 'unused')`)
	requireFindings("", "", "") // the schedules of the paused queue are paused too

	exec(`UPDATE belfry.schedule SET due_at = now() - interval '5 s' WHERE name = 'many-3'`)
	requireFindings("", "", "")
	exec(`UPDATE belfry.schedule SET due_at = next_at WHERE name = 'many-3'`)
	exec(`UPDATE belfry.schedule SET due_at = now() - interval '5 minutes' WHERE name = 'many-6'`)
	exec(`UPDATE belfry.schedule SET changed_at = now() - interval '1 hour' WHERE name = 'new'`)
	requireFindings(`2 schedules are due, and no instance has stored their messages: "new" of queue "free" for 1h0m0s, "many-6" of queue "free" for 5m0s.`, "", "")

	exec(`UPDATE belfry.schedule SET due_at = NULL, error = 'no such zone' WHERE name IN ('new', 'many-3', 'many-6')`)
	requireFindings("", `3 schedules have an error: "many-3" of queue "free" (no such zone); `, "")

	exec(`UPDATE belfry.schedule SET due_at = next_at, error = NULL WHERE name IN ('many-2', 'many-3', 'many-6')`)
	requireFindings("", `"new" of queue "free" (no such zone)`, `queue "stopped" of schedule "many-2" is paused.`)

	exec(`UPDATE belfry.schedule SET queue = 'limited' WHERE name IN ('many-2')`)
	exec(`INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, 'Default', 2 FROM belfry.queue q WHERE q.name = 'limited'`)
	store := `INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, p.last_seq, now(), gen_random_uuid(), p.last_seq::text, '{}' FROM belfry.partition p`
	exec(store)
	requireFindings("", "no such zone", "")
	exec(`UPDATE belfry.partition SET last_seq = 3`)
	exec(store)
	requireFindings("", "no such zone", `queue "limited" of schedule "many-2" is full: 2 messages wait, and maxSize is 2.`)
}
