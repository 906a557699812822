package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/enginetest"
)

// While a session holds a snapshot, no vacuum removes the old entries of the index. The read still does not visit them.
func TestTheReadStaysFastWhileASnapshotIsHeld(t *testing.T) {
	f := newFixture(t)
	f.exec(`ALTER TABLE belfry.schedule SET (autovacuum_enabled = off)`)
	snapshot, err := enginetest.Connect(t, f.dsn).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	enginetest.Exec(t, snapshot, `SELECT 1`)
	f.exec(`SELECT belfry.schedule('s' || i, 'q', '1', every => '1 s') FROM generate_series(1, 100) i`)
	conn, start := enginetest.Connect(t, f.dsn), time.Now().Truncate(time.Second).Add(time.Minute)
	for second := range 100 {
		f.travel(f.Runner, start.Add(time.Duration(second)*time.Second))
		_, err := f.step(t.Context())
		require.NoError(t, err)
	}
	require.Len(t, f.ids(), 100*100)
	f.explained(conn, f.Runner) // reads the catalog
	floor := f.floor
	cheap := f.explained(conn, f.Runner)
	f.floor = time.Time{}
	dear := f.explained(conn, f.Runner)
	t.Logf("%d buffers with a floor, %d without", cheap.Hit+cheap.Read, dear.Hit+dear.Read)
	require.False(t, floor.IsZero())
	require.Greater(t, dear.Hit+dear.Read, 4*(cheap.Hit+cheap.Read), "the test has made old entries")
	require.Less(t, cheap.Hit+cheap.Read, 1500, "only the old entries of the last ten seconds")
}

// A schedule that is due before the floor is found after a notification, after a failure, after the fallback interval, and after
// another session had locked a schedule.
func TestTheFloorHidesNothing(t *testing.T) {
	f := newFixture(t)
	step := func() {
		_, err := f.step(t.Context())
		require.NoError(t, err)
	}
	step()
	require.False(t, f.floor.IsZero())
	for i, lookAgain := range []func(){
		func() { f.fullAt = time.Now().Add(-f.cfg.FallbackInterval) },
		func() { f.handleFailure(pgx.ErrTxClosed) },
		func() {
			f.put("locked", func(d *Definition) { d.Spec.At = hour(2) })
			session := enginetest.Connect(t, f.dsn)
			enginetest.Exec(t, session, `BEGIN`)
			enginetest.Exec(t, session, `UPDATE belfry.schedule SET due_at = clock_timestamp() WHERE name = 'locked'`)
			enginetest.Exec(t, session, `COMMIT`)
			enginetest.Exec(t, session, `BEGIN`)
			enginetest.Exec(t, session, `SELECT FROM belfry.schedule WHERE name = 'locked' FOR UPDATE`)
			step()
			enginetest.Exec(t, session, `ROLLBACK`)
		},
		func() {
			f.OnSchedule()
			stop := f.run(f.Runner)
			enginetest.Await(t, "the instance has read after the notification", func() bool { return len(f.changed) == 0 && len(f.ids()) == 4 })
			stop()
		},
	} {
		name := fmt.Sprintf("s%d", i)
		f.exec(`SELECT belfry.schedule($1, 'q', '1', at => clock_timestamp() + interval '1 hour')`, name)
		f.exec(`UPDATE belfry.schedule SET at = clock_timestamp() - interval '1 minute', handled_to = '2020-01-01', due_at = '2020-01-02' WHERE name = $1`, name)
		step()
		require.Len(t, f.ids(), i, "the read begins at the floor")
		lookAgain()
		step()
		require.Len(t, f.ids(), i+1)
	}
}
