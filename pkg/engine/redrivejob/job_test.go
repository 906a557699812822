package redrivejob_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/redrivejob"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type fixture struct {
	t    *testing.T
	pool *postgres.Pool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t, enginetest.Pool(t, enginetest.Database(t))}
}

// fill creates queue q with n partitions. Each has one message, which is a dead letter of group g.
func (r *fixture) fill(n int) {
	r.t.Helper()
	for _, statement := range []string{
		`INSERT INTO belfry.queue (name) VALUES ('q')`,
		`INSERT INTO belfry.partition (queue_id, name, last_seq) SELECT q.id, 'p' || i, 1 FROM belfry.queue q, generate_series(1, $1::int) i`,
		`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		 SELECT p.id, 1, now(), gen_random_uuid(), p.name, '{}' FROM belfry.partition p`,
		`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'g', true FROM belfry.queue q`,
		`INSERT INTO belfry.cursor (partition_id, group_id, committed) SELECT p.id, g.id, 1 FROM belfry.partition p, belfry.consumer_group g`,
		`INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error) SELECT c.partition_id, 1, c.group_id, 3, 'no' FROM belfry.cursor c`,
	} {
		var args []any
		if strings.Contains(statement, "$1") {
			args = append(args, n)
		}
		enginetest.Exec(r.t, r.pool, statement, args...)
	}
}

// instance returns an instance that runs until stop is called.
func (r *fixture) instance(name string) (jobs *redrivejob.Jobs, stop func()) {
	r.t.Helper()
	jobs = redrivejob.New(r.pool, deadletter.New(r.pool, nil, &events.Bus{}, zap.NewNop()), name, zap.NewNop())
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- jobs.Run(ctx) }()
	stop = func() {
		cancel()
		require.NoError(r.t, <-ended)
		ended <- nil
	}
	r.t.Cleanup(stop)
	return jobs, stop
}

// entry returns a context with an entry of the audit.
func (r *fixture) entry() context.Context {
	ctx := audit.With(r.t.Context(), audit.New(r.t.Context(), nil, audit.RedriveDeadLetters, "127.0.0.1", "r1"))
	audit.Begin(ctx, audit.Target{Queue: "q", Group: "g"}, nil)
	return ctx
}

func (r *fixture) start(jobs *redrivejob.Jobs, rate int64) redrivejob.Job {
	r.t.Helper()
	name, group := "q", "g"
	ctx := r.entry()
	job, err := jobs.Start(ctx, deadletter.Filter{Queue: &name, Group: &group}, rate)
	require.NoError(r.t, err)
	require.Equal(r.t, audit.From(ctx).ID, job.ID)
	return job
}

// until waits until a job satisfies a condition.
func (r *fixture) until(jobs *redrivejob.Jobs, id queue.ID, is func(redrivejob.Job) bool) (job redrivejob.Job) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		var err error
		job, err = jobs.Get(r.t.Context(), id)
		require.NoError(r.t, err)
		return is(job)
	}, enginetest.Patience, 10*time.Millisecond)
	return job
}

func in(state string) func(redrivejob.Job) bool {
	return func(j redrivejob.Job) bool { return j.State == state }
}

func (r *fixture) number(query string) (n int64) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(enginetest.Context(r.t), query).Scan(&n))
	return n
}

// exact requires that the count of a job is what it has redriven.
func (r *fixture) exact(j redrivejob.Job, before int64) {
	r.t.Helper()
	require.Equal(r.t, before-r.number(`SELECT count(*) FROM belfry.dead_letter`), j.Redriven)
	require.Equal(r.t, j.Redriven, r.number(`SELECT count(*) FROM belfry.redrive`), "each message is redriven once")
	require.Equal(r.t, j.Redriven, r.number(`SELECT (counts->>'deadLetters')::bigint FROM belfry.audit WHERE id = '`+j.ID.String()+`'`))
}

func TestAJobRedrivesWhatExistedAtItsStart(t *testing.T) {
	r := newFixture(t)
	r.fill(2500)
	jobs, _ := r.instance("a")
	job := r.start(jobs, 0)
	require.Equal(t, int64(2500), job.Matched)
	job = r.until(jobs, job.ID, in(redrivejob.Done))
	require.Equal(t, int64(2500), job.Redriven)
	require.Equal(t, "a", job.Instance)
	require.False(t, job.EndedAt.IsZero())
	r.exact(job, 2500)
	listed, err := jobs.List(t.Context(), []string{"other"}, 10)
	require.NoError(t, err)
	require.Empty(t, listed)
}

// A dead letter that comes after the count stays, although a job begins later.
func TestAJobRedrivesOnlyWhatWasCounted(t *testing.T) {
	r := newFixture(t)
	r.fill(3)
	jobs, _ := r.instance("a")
	name, group := "q", "g"
	filter := deadletter.Filter{Queue: &name, Group: &group}
	letters := deadletter.New(r.pool, nil, &events.Bus{}, zap.NewNop())
	var err error
	filter.AsOf, err = letters.Count(t.Context(), filter, nil)
	require.NoError(t, err)
	enginetest.Exec(t, r.pool, `UPDATE belfry.partition SET last_seq = 2 WHERE name = 'p1'`)
	enginetest.Exec(t, r.pool, `INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, 2, now(), gen_random_uuid(), 'late', '{}' FROM belfry.partition p WHERE p.name = 'p1'`)
	enginetest.Exec(t, r.pool, `INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
		SELECT c.partition_id, 2, c.group_id, 3, 'late' FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'p1'`)
	job, err := jobs.Start(r.entry(), filter, 0)
	require.NoError(t, err)
	require.Equal(t, int64(3), job.Matched)
	job = r.until(jobs, job.ID, in(redrivejob.Done))
	require.Equal(t, int64(3), job.Redriven)
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.dead_letter WHERE error = 'late'`))
}

// In another epoch of the database, the snapshot of the count means nothing. The job counts again. It takes no dead letter that
// failed after its start, and no more than were left.
func TestAJobContinuesInAnotherEpoch(t *testing.T) {
	r := newFixture(t)
	r.fill(30)
	one, stop := r.instance("a")
	job := r.start(one, 5)
	job = r.until(one, job.ID, func(j redrivejob.Job) bool { return j.Redriven > 0 })
	stop()
	enginetest.Exec(t, r.pool, `UPDATE belfry.redrive_job SET epoch = epoch - 1, rate = 0`)
	enginetest.Exec(t, r.pool, `UPDATE belfry.partition SET last_seq = 2 WHERE name = 'p1'`)
	enginetest.Exec(t, r.pool, `INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, 2, now(), gen_random_uuid(), 'late', '{}' FROM belfry.partition p WHERE p.name = 'p1'`)
	enginetest.Exec(t, r.pool, `INSERT INTO belfry.dead_letter (partition_id, seq, group_id, attempts, error)
		SELECT c.partition_id, 2, c.group_id, 3, 'late' FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id WHERE p.name = 'p1'`)
	two, _ := r.instance("b")
	job = r.until(two, job.ID, in(redrivejob.Done))
	require.Equal(t, int64(30), job.Redriven)
	require.Equal(t, int64(1), r.number(`SELECT count(*) FROM belfry.dead_letter`), "the late dead letter must stay")
	r.exact(job, 31)
}

func TestAJobIsStoppedFromAnyInstance(t *testing.T) {
	r := newFixture(t)
	r.fill(60)
	one, _ := r.instance("a")
	job := r.start(one, 5)
	r.until(one, job.ID, func(j redrivejob.Job) bool { return j.Redriven > 0 })
	two, _ := r.instance("b")
	require.NoError(t, two.Stop(t.Context(), job.ID))
	job = r.until(two, job.ID, in(redrivejob.Stopped))
	require.Less(t, job.Redriven, int64(60))
	require.NoError(t, two.Stop(t.Context(), job.ID), "a second stop does nothing")
	require.Equal(t, queue.CodeNotFound, queue.CodeOf(two.Stop(t.Context(), queue.NewID())))
	next := r.start(one, 0) // the rest, by another job. It ends after the stopped job has looked at its row.
	next = r.until(one, next.ID, in(redrivejob.Done))
	require.Equal(t, int64(60), job.Redriven+next.Redriven)
}

// An instance that stops gives its jobs to another one, which continues.
func TestAnotherInstanceContinuesAJob(t *testing.T) {
	r := newFixture(t)
	r.fill(40)
	one, stop := r.instance("a")
	job := r.start(one, 10)
	r.until(one, job.ID, func(j redrivejob.Job) bool { return j.Redriven > 0 })
	stop()
	stopped, err := one.Get(t.Context(), job.ID)
	require.NoError(t, err)
	require.Equal(t, redrivejob.Running, stopped.State)
	require.Less(t, stopped.Redriven, int64(40))
	two, _ := r.instance("b") // a restarted instance finds the job at its start
	job = r.until(two, job.ID, in(redrivejob.Done))
	require.Equal(t, int64(40), job.Redriven)
	require.Equal(t, "b", job.Instance)
	r.exact(job, 40)
}

// An instance that died still has a lease. Another instance takes the job when the lease ends. If the first instance lives after
// all, it redrives nothing more.
func TestALeaseThatEndsIsTaken(t *testing.T) {
	r := newFixture(t)
	r.fill(30)
	one, _ := r.instance("a")
	job := r.start(one, 5)
	r.until(one, job.ID, func(j redrivejob.Job) bool { return j.Redriven > 0 })
	enginetest.Exec(t, r.pool, `UPDATE belfry.redrive_job SET lease_id = gen_random_uuid(), instance = 'dead', lease_until = clock_timestamp() + interval '1500 ms'`)
	two, _ := r.instance("b")
	job = r.until(two, job.ID, in(redrivejob.Done))
	require.Equal(t, int64(30), job.Redriven)
	r.exact(job, 30)
}
