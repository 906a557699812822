package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

const (
	// drainPatience is the time without an arrival after which missing messages count as stuck or lost.
	drainPatience = 15 * time.Second
	// stuckAfter is the delay after which a delivered message counts as stuck. After such a long delay, something other
	// than the push woke the consumer.
	stuckAfter = 5 * time.Second
	// longWait is the longest wait of a pop.
	longWait = 10 * time.Minute
	// defaultLease is the lease of a queue without options.
	defaultLease = time.Minute
	// arrivalRest is the time without statements after which all waiting requests have probed.
	arrivalRest = time.Second
)

// suite is shared by all measures: a private Postgres and a connection to its statistics.
type suite struct {
	settings
	cluster *rig.Cluster
	admin   *pgx.Conn
}

func newSuite(ctx context.Context, s settings) (*suite, error) {
	cluster, err := rig.StartCluster(ctx, map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "8GB", "max_connections": "300",
		"shared_preload_libraries": "pg_stat_statements",
	})
	if err != nil {
		return nil, err
	}
	admin, err := cluster.CountStatements(ctx)
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return &suite{settings: s, cluster: cluster, admin: admin}, nil
}

// close stops Postgres and removes its folder.
func (r *suite) close() error {
	return errors.Join(r.admin.Close(context.Background()), r.cluster.Close())
}

// trial is a new database with servers and with the traffic of the measure.
type trial struct {
	*suite
	*load.Traffic
	database string
	servers  []*rig.Server
	queues   []string
}

// lanes returns one lane for each queue, in the partition Default.
func lanes(queues ...string) []load.Lane {
	all := make([]load.Lane, len(queues))
	for i, queue := range queues {
		all[i] = load.Lane{Queue: queue, Partition: "Default"}
	}
	return all
}

// queueNames returns n names.
func queueNames(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}

// start starts n servers on a new database and creates the queues of the lanes. The name "" in groups means queue mode. The
// caller must stop the trial.
func (r *suite) start(ctx context.Context, n int, groups []string, lanes []load.Lane) (*trial, error) {
	t := &trial{suite: r}
	var err error
	if t.database, t.servers, err = r.cluster.Start(ctx, n); err != nil {
		return nil, err
	}
	meter := load.NewMeter()
	meter.Measure(time.Now(), time.Time{})
	t.Traffic = &load.Traffic{
		Client: t.servers[0].Client, Meter: meter, Groups: groups,
		Ledger: load.NewLedger(load.LedgerConfig{Lanes: lanes, Groups: len(groups), Lease: defaultLease, StuckAfter: stuckAfter, Meter: meter}),
	}
	for _, lane := range lanes {
		if !slices.Contains(t.queues, lane.Queue) {
			t.queues = append(t.queues, lane.Queue)
		}
	}
	if err := createQueues(ctx, t.Client, t.queues, nil); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

func (t *trial) startServer(ctx context.Context) error {
	server, err := rig.StartServer(ctx, t.cluster.URL(t.database))
	if err != nil {
		return err
	}
	t.servers = append(t.servers, server)
	return nil
}

// createQueues creates queues, a few at a time.
func createQueues(ctx context.Context, c *load.Client, queues []string, options map[string]int) error {
	const atOnce = 16
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, queue := range queues {
		group.Go(func() error { return c.Configure(ctx, queue, options) })
	}
	return group.Wait()
}

// stop stops the servers.
func (t *trial) stop() error {
	servers := t.servers
	t.servers = nil
	return rig.StopAll(servers)
}

// waitArrived blocks until n requests wait at a server and all of them have probed.
func (t *trial) waitArrived(ctx context.Context, server *rig.Server, n int) error {
	if err := server.WaitWaiting(ctx, n); err != nil {
		return err
	}
	return t.waitQuiet(ctx, arrivalRest)
}

// startMeasuring starts the measured interval and resets the statistics of the database.
func (t *trial) startMeasuring(ctx context.Context) error {
	t.Meter.Measure(time.Now(), time.Time{})
	return rig.ResetStatements(ctx, t.admin, t.database)
}

// finish stops the consumers, pops the remaining messages and returns the counts of the ledger. err is the error of the
// load, which finish returns too.
func (t *trial) finish(ctx context.Context, err error, consumers *load.Workers) (load.Counts, error) {
	if err = errors.Join(err, consumers.Stop(), rig.Failures(t.Meter)); err != nil {
		return load.Counts{}, err
	}
	if t.Ledger.Counts().Lost > 0 {
		for _, queue := range t.queues {
			if err := t.Search(ctx, load.PopOptions{Queue: queue, Batch: 100, Partitions: 1}); err != nil {
				return load.Counts{}, err
			}
		}
	}
	return t.Ledger.Counts(), nil
}

// enoughFiles returns an error if this process and a child may not open n connections each. The Go runtime has already
// raised the limit to its maximum.
func enoughFiles(n uint64) error {
	const spare = 500
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	if limit.Cur < n+spare {
		return fmt.Errorf("a process may open %d files but needs %d: raise the limit (ulimit -n)", limit.Cur, n+spare)
	}
	return nil
}
