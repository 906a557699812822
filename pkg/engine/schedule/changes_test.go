package schedule

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/schedule/when"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// A schedule that is deleted stores nothing more, and its messages stay.
func TestADeletedScheduleStoresNothing(t *testing.T) {
	f := newFixture(t)
	f.put("s", hourly)
	f.travel(f.Runner, hour(1))
	f.mustStep(f.Runner)
	require.NoError(t, f.Delete(t.Context(), "s"))
	f.travel(f.Runner, hour(3))
	f.mustStep(f.Runner)
	require.Len(t, f.ids(), 1)

	_, err := f.Get(t.Context(), "s")
	require.ErrorIs(t, err, ErrNoSchedule)
	require.ErrorIs(t, f.Delete(t.Context(), "s"), ErrNoSchedule)
	_, err = f.SetPaused(t.Context(), "s", true, "")
	require.ErrorIs(t, err, ErrNoSchedule)
	_, err = f.RunNow(t.Context(), "s")
	require.ErrorIs(t, err, ErrNoSchedule)
	_, err = f.Next(t.Context(), "s", 1)
	require.ErrorIs(t, err, ErrNoSchedule)
}

// RunNow stores a message at once, also of a paused schedule. It leaves the following instants as they are.
func TestRunNowStoresAMessageAtOnce(t *testing.T) {
	f := newFixture(t)
	f.put("s", func(d *Definition) {
		hourly(d)
		d.Partition, d.Delay, d.Payload = "p", time.Minute, []byte(`{"at": "{{scheduled_at}}"}`)
	})
	f.mustStep(f.Runner)
	before := time.Now().Truncate(time.Microsecond)
	first, err := f.RunNow(t.Context(), "s")
	require.NoError(t, err)
	_, err = f.SetPaused(t.Context(), "s", true, "")
	require.NoError(t, err)
	second, err := f.RunNow(t.Context(), "s")
	require.NoError(t, err)
	_, err = f.SetPaused(t.Context(), "s", false, "")
	require.NoError(t, err)
	f.mustStep(f.Runner)
	require.Equal(t, []string{first, second}, f.ids())
	instant, found := strings.CutSuffix(strings.TrimPrefix(first, "s@"), "/run")
	require.True(t, found, first)
	at, err := time.Parse(time.RFC3339Nano, instant)
	require.NoError(t, err)
	require.WithinRange(t, at, before, time.Now())
	require.Equal(t, `q p {"at": "`+instant+`"} delayed`, f.texts(`SELECT concat_ws(' ', queue, partition, payload, CASE WHEN visible_at > inserted_at + interval '50 s' THEN 'delayed' END)
		FROM belfry.inbox ORDER BY id`)[0])
	one := f.schedule("s")
	require.Equal(t, second, one.LastTransactionID)
	require.True(t, one.LastAt.IsZero())
	require.Equal(t, hour(1), one.NextAt.UTC())
}

// The next instants begin after the last handled one, and after now if the schedule is paused. There are at most 1,000.
func TestTheNextInstantsAreThoseThatFollow(t *testing.T) {
	f := newFixture(t)
	f.put("s", func(d *Definition) { hourly(d); d.Spec.Ends = hour(4) })
	next := func(n int) (all []time.Time) {
		found, err := f.Next(t.Context(), "s", n)
		require.NoError(t, err)
		for _, at := range found {
			all = append(all, at.UTC())
		}
		return all
	}
	require.Equal(t, []time.Time{hour(1), hour(2)}, next(2))
	require.Len(t, next(10), 3)
	f.travel(f.Runner, hour(1))
	f.mustStep(f.Runner)
	require.Equal(t, []time.Time{hour(2), hour(3)}, next(10))
	f.exec(`UPDATE belfry.schedule SET handled_to = '2020-01-01'`)
	require.Less(t, next(1)[0], hour(0), "a missed instant comes first")
	_, err := f.SetPaused(t.Context(), "s", true, "")
	require.NoError(t, err)
	require.Equal(t, hour(1), next(1)[0])
	f.put("s", func(d *Definition) { d.Spec.Every = time.Second })
	require.Len(t, next(5000), maxNext)
}

// refusal returns the error of a statement.
func refusal(t *testing.T, conn *pgx.Conn, statement string) *pgconn.PgError {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg, statement)
	return pg
}

// Each wrong argument in SQL is an error with a hint that says what to change. The Store returns both as one text.
func TestWrongArgumentsHaveAHint(t *testing.T) {
	f := newFixture(t)
	conn := enginetest.Connect(t, f.dsn)
	for arguments, want := range map[string]string{
		`'', 'q', '1', every => '1 s'`:                                                "0 bytes long|1 to 200 bytes",
		`'..', 'q', '1', every => '1 s'`:                                              "is ..|clients remove these",
		`E'a\nb', 'q', '1', every => '1 s'`:                                           "control character|Remove it",
		`'s', 'q', NULL, every => '1 s'`:                                              "payload is NULL|write 'null'",
		`'s', 'q', to_json(repeat('x', 65535)), every => '1 s'`:                       "65537 bytes|Store larger values elsewhere",
		`'s', 'q', '1'`:                                                               "and has 0|Give cron =>",
		`'s', 'q', '1', every => '1 s', at => now() + interval '1 day'`:               "and has 2|Give cron =>",
		`'s', 'q', '1', cron => '0 8 * *'`:                                            "five or six fields|'0 8 * * 1-5'",
		`'s', 'q', '1', every => '1 month'`:                                           "months have different lengths|'0 0 1 * *'",
		`'s', 'q', '1', every => '500 ms'`:                                            "every is 00:00:00.5|whole seconds",
		`'s', 'q', '1', every => '367 days'`:                                          "every is 367 days|to 366 days",
		`'s', 'q', '1', at => '2020-01-01'`:                                           "in the past|call belfry.push",
		`'s', 'q', '1', at => 'infinity'`:                                             "infinite|Give an instant",
		`'s', 'q', '1', every => '1 s', starts => '2030-01-02', ends => '2030-01-01'`: "ends is not after starts|end after the start",
		`'s', 'q', '1', every => '1 s', zone => 'Europe/Nowhere'`:                     "'Europe/Nowhere' is not known|'Europe/Rome'",
		`'s', 'q', '1', every => '1 s', jitter => '2 days'`:                           "jitter is 2 days|0 to 1 day",
		`'s', 'q', '1', every => '1 s', missed => 'some'`:                             "missed is 'some'|'skip', 'one' or 'all'",
		`'s', 'q', '1', every => '1 s', overlap_group => ''`:                          "0 bytes long|consumer group",
		`'s', 'q', '1', every => '1 s', partition => '.'`:                             "partition is not valid|255 bytes",
		`'s', 'q', '1', every => '1 s', headers => '{"a": 1}'`:                        "|",
		`'s', '', '1', every => '1 s'`:                                                "|",
		`'s', 'q', '1', every => '1 s', delay => '-1 s'`:                              "|",
	} {
		problem, hint, _ := strings.Cut(want, "|")
		pg := refusal(t, conn, `SELECT belfry.schedule(`+arguments+`)`)
		require.True(t, strings.HasPrefix(pg.Code, "22"), "%s: %s", arguments, pg.Code)
		require.Contains(t, pg.Message, problem, arguments)
		require.NotEmpty(t, pg.Hint, arguments)
		require.Contains(t, pg.Hint, hint, arguments)
	}
	_, err := f.Put(t.Context(), &Definition{Name: "..", Queue: "q", Payload: []byte(`1`), Spec: when.Spec{Every: time.Hour}})
	var invalid *queue.Error
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, queue.CodeInvalid, invalid.Code)
	require.Contains(t, invalid.Message, "is ..: A name has 1 to 200 bytes")
	require.Empty(t, f.texts(`SELECT name FROM belfry.schedule`))
}

// A change in SQL is a part of the calling transaction: a rollback leaves nothing.
func TestARollbackChangesNoSchedule(t *testing.T) {
	f := newFixture(t)
	conn := enginetest.Connect(t, f.dsn)
	enginetest.Exec(t, conn, `SELECT belfry.schedule('old', 'q', '1', every => '1 hour')`)
	enginetest.Exec(t, conn, `BEGIN`)
	require.True(t, enginetest.Value[bool](t, conn, `SELECT belfry.schedule('new', 'q', '1', every => '1 hour')`))
	require.False(t, enginetest.Value[bool](t, conn, `SELECT belfry.schedule('old', 'q', '2', every => '2 hours')`))
	require.True(t, enginetest.Value[bool](t, conn, `SELECT belfry.unschedule('old')`))
	require.False(t, enginetest.Value[bool](t, conn, `SELECT belfry.unschedule('old')`))
	enginetest.Exec(t, conn, `ROLLBACK`)
	require.Equal(t, []string{"old 01:00:00 1"}, f.texts(`SELECT concat_ws(' ', name, every, payload) FROM belfry.schedules`))
}

// A role needs the right to push to the queue of a schedule: of the new one, of the replaced one and of the deleted one. It sees
// its own schedules only.
func TestARoleChangesOnlySchedulesOfItsQueues(t *testing.T) {
	f := newFixture(t)
	owner, conn := enginetest.Connect(t, f.dsn), enginetest.Connect(t, f.dsn)
	name := "scheduler_of_" + owner.Config().Database
	role := pgx.Identifier{name}.Sanitize()
	enginetest.Exec(t, owner, `CREATE ROLE `+role)
	t.Cleanup(func() {
		_, err := owner.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf(`DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s`, role), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	})
	enginetest.Exec(t, owner, `SELECT belfry.schedule('theirs', 'other', '1', every => '1 hour')`)
	enginetest.Exec(t, conn, `SET ROLE `+role)
	require.Equal(t, "42501", refusal(t, conn, `SELECT belfry.schedule('s', 'mine', '1', every => '1 hour')`).Code, "without any right")
	for _, grant := range f.texts(`SELECT belfry.role_grants('producer', $1)`, name) {
		enginetest.Exec(t, owner, grant)
	}
	enginetest.Exec(t, owner, `SELECT belfry.grant_push($1, 'mine')`, name)

	enginetest.Exec(t, conn, `SELECT belfry.schedule('s', 'mine', '1', every => '1 hour')`)
	for _, statement := range []string{
		`SELECT belfry.schedule('o', 'other', '1', every => '1 hour')`, `SELECT belfry.schedule('theirs', 'mine', '1', every => '1 hour')`,
		`SELECT belfry.schedule('s', 'other', '1', every => '1 hour')`, `SELECT belfry.unschedule('theirs')`,
	} {
		pg := refusal(t, conn, statement)
		require.Equal(t, "42501", pg.Code, statement)
		require.Contains(t, pg.Hint, "belfry.grant_push('"+name+"', 'other')", statement)
	}
	require.Equal(t, "42501", refusal(t, conn, `SELECT FROM belfry.schedule`).Code)
	own := `SELECT string_agg(name || ' of ' || queue, ', ' ORDER BY name) FROM belfry.schedules`
	require.Equal(t, "s of mine", enginetest.Value[string](t, conn, own))
	require.Equal(t, "s of mine, theirs of other", enginetest.Value[string](t, owner, own))
	require.Equal(t, name, f.schedule("s").ScheduledBy)
	require.True(t, enginetest.Value[bool](t, conn, `SELECT belfry.unschedule('s')`))
	enginetest.Exec(t, conn, `RESET ROLE`)
}
