package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
)

// fill makes n schedules that are due in an hour and later, or never.
func (f *fixture) fill(n int) {
	f.t.Helper()
	f.exec(`INSERT INTO belfry.schedule (name, queue, every_seconds, payload, scheduled_by, handled_to, next_at, due_at)
		SELECT 's' || i, 'q', 3600, '1', current_user::regrole, clock_timestamp(), clock_timestamp() + (3600 + i) * interval '1 s',
		       CASE WHEN i % 10 > 0 THEN clock_timestamp() + (3600 + i) * interval '1 s' END
		  FROM generate_series(1, $1::int) i`, n)
}

// explained returns the plan of the read of the schedules that are due, with the number of touched buffers.
func (f *fixture) explained(conn *pgx.Conn, r *Runner) (plan enginetest.Plan) {
	f.t.Helper()
	raw := enginetest.Value[[]byte](f.t, conn, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sqlDue, int64(batchRows), r.clockStep.Load(), zeronull.Timestamptz(r.floor))
	var out []struct{ Plan enginetest.Plan }
	require.NoError(f.t, json.Unmarshal(raw, &out))
	return out[0].Plan
}

// The read of the schedules that are due, and of the next instant, reads only the index of the instants. It touches as little
// with 100,000 schedules as with none, with any plan and any statistics.
func TestTheReadDoesNotReadSchedulesThatAreNotDue(t *testing.T) {
	f := newFixture(t)
	f.exec(`ALTER TABLE belfry.schedule SET (autovacuum_enabled = off)`)
	check := func(state string) {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			conn := enginetest.Connect(t, f.dsn)
			enginetest.Exec(t, conn, `SELECT set_config('plan_cache_mode', $1, false)`, mode)
			f.explained(conn, f.Runner) // reads the catalog
			f.floor = time.Now().Add(-time.Minute)
			if state == "without a floor" {
				f.floor = time.Time{}
			}
			plan := f.explained(conn, f.Runner)
			require.Less(t, plan.Hit+plan.Read, 60, "%s, %s", state, mode)
			plan.Walk(func(p *enginetest.Plan) {
				require.NotEqual(t, "schedule, Seq Scan", p.Relation+", "+p.Type, "%s, %s", state, mode)
				if strings.HasPrefix(p.Index, "schedule") {
					require.Equal(t, "schedule_due", p.Index, "%s, %s: %s", state, mode, p.Type)
					require.Contains(t, p.Cond, "due_at ", "%s, %s: %s", state, mode, p.Type)
				}
			})
		}
	}
	f.fill(100_000)
	check("without statistics")
	f.exec(`ANALYZE belfry.schedule`)
	check("with statistics")
	f.put("due", func(d *Definition) { d.Spec.Every = time.Second })
	check("with a schedule that is due")
	check("without a floor")
}

// The statement that stores the messages of 500 schedules finds each of them by its id, and does not read the 100,000 others.
func TestStoringMessagesDoesNotReadOtherSchedules(t *testing.T) {
	f := newFixture(t)
	f.exec(`ALTER TABLE belfry.schedule SET (autovacuum_enabled = off)`)
	f.fill(100_000)
	check := func(state string) {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			f.exec(`UPDATE belfry.schedule SET next_at = '2020-01-01', due_at = '2020-01-01' WHERE id <= $1`, batchRows)
			found, err := f.read(enginetest.Context(t), 0)
			require.NoError(t, err)
			require.Len(t, found.rows, batchRows)
			var a arguments
			for _, one := range found.rows {
				a.add(planned{one, one.plan(found.now.Add(2*time.Hour), f.rules.parse)})
			}
			conn := enginetest.Connect(t, f.dsn)
			enginetest.Exec(t, conn, `SELECT set_config('plan_cache_mode', $1, false)`, mode)
			var out []struct{ Plan enginetest.Plan }
			raw := enginetest.Value[[]byte](t, conn, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sqlTick, a.values()...)
			require.NoError(t, json.Unmarshal(raw, &out))
			out[0].Plan.Walk(func(p *enginetest.Plan) {
				if p.Relation == "schedule" && p.Type != "ModifyTable" {
					require.Equal(t, "schedule_pkey", p.Index, "%s, %s: %s", state, mode, p.Type)
					require.Contains(t, p.Cond, "id ", "%s, %s: %s", state, mode, p.Type)
				}
			})
		}
	}
	check("without statistics")
	f.exec(`ANALYZE belfry.schedule`)
	check("with statistics")
}
