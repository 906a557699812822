//go:build installed && linux

package ha

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/bench/rig"
	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/chaos/workload"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

var (
	kills       = flag.Int("kills", 1, "how often the primary is killed")
	switchovers = flag.Int("switchovers", 1, "how many switchovers there are")
	freezes     = flag.Int("freezes", 0, "how often the primary is frozen")
	thaws       = flag.Bool("thaw", false, "a frozen primary continues after the promotion; with Patroni 3.0.2 this loses accepted messages")
	// On the busy machine of the other tests, everything takes longer. `make ha` sets 3 s.
	maxDelay = flag.Duration("delay", time.Minute, "how much longer than a commit a push and a delivery may be impossible")
)

const (
	instances = 2
	// faultPatience limits the time from a fault until messages flow again.
	faultPatience = 3 * time.Minute
	// calm is the time with traffic before and after a fault.
	calm = 2 * time.Second
	// drainPatience limits the time until all messages are delivered.
	drainPatience = 2 * time.Minute
	wakeBound     = 2 * time.Second
)

func TestMain(m *testing.M) {
	if code, child := rig.RunChild(nil); child {
		os.Exit(code)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// run is a test with its processes and clients.
type run struct {
	t        *testing.T
	cluster  *cluster
	servers  []*rig.Process
	urls     []string
	database *pgxpool.Pool // goes to the primary, as Belfry does
	commits  gaps          // of any node, without Belfry
	numbered *numbered
	recorder *history.Recorder
	chaos    *workload.Clients
	windows  []check.FaultWindow
}

// TestFailovers injects the faults of the flags. During each fault it measures how long no commit and no push is accepted. After
// the last fault every accepted message must reach every group, and all rules of the chaos test must hold.
func TestFailovers(t *testing.T) {
	require.NoError(t, sweep())
	dir, err := os.MkdirTemp("/tmp", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs are in %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	ctx := t.Context()
	began := time.Now()
	r := &run{t: t, cluster: startCluster(ctx, t, dir)}
	t.Logf("the cluster started in %s", round(time.Since(began)))
	r.startServers(ctx)
	require.NoError(t, check.Watch(ctx, r.database))
	r.recorder = history.NewRecorder()
	r.chaos = workload.New(workload.Config{
		Seed: 1, URLs: r.urls, Recorder: r.recorder, Queues: 2, Partitions: 3, Producers: 2, Consumers: 1, Database: r.database, SQLProducers: 1, SQLConsumers: 1, Quiet: true,
	})
	require.NoError(t, r.chaos.Prepare(ctx))
	r.numbered = newNumbered(r.urls)
	require.NoError(t, r.numbered.configure(ctx))
	for i := range r.urls { // the groups exist before the first message
		require.NoError(t, r.numbered.receive(ctx, i))
	}
	stop := r.work(ctx)
	r.injectAll(ctx)
	stop()
	r.cluster.untilWhole(ctx, t) // every node came back, also the last
	r.judge(ctx)
}

// startServers starts Belfry with the settings of the example.
func (r *run) startServers(ctx context.Context) {
	vars := readVariables(r.t, "belfry.env")
	for name, value := range vars {
		vars[name] = localize(value, r.cluster.port)
	}
	env := with(vars, map[string]string{
		"BELFRY_HTTP_ADDR": "127.0.0.1:0", "BELFRY_HTTP_DRAIN_DELAY": "0s",
		// The workload of the chaos test needs these.
		"BELFRY_AUTH_ENABLED": "true", "BELFRY_AUTH_SECRET": principals.Secret,
		"BELFRY_DEFAULTS_LEASE_TIME": workload.LeaseTime.String(), "BELFRY_DEFAULTS_RETRY_LIMIT": fmt.Sprint(workload.RetryLimit), "BELFRY_DEFAULTS_RETRY_DELAY": "0s",
		"BELFRY_SWEEP_RETENTION_INTERVAL": "500ms", "BELFRY_SWEEP_EVICTION_INTERVAL": "500ms", "BELFRY_SWEEP_PARTITION_CLEANUP_INTERVAL": "500ms",
		"BELFRY_SWEEP_PARTITION_CLEANUP_DAYS": fmt.Sprint(int(world.IdleAfter.Hours() / 24)),
	})
	for i := range instances {
		log, err := os.Create(filepath.Join(r.cluster.dir, fmt.Sprintf("belfry%d.log", i+1)))
		require.NoError(r.t, err)
		server, err := rig.Program{Name: "server", Env: env, Errors: log}.Start()
		require.NoError(r.t, err)
		require.NoError(r.t, log.Close())
		r.t.Cleanup(func() { require.NoError(r.t, server.Stop()) })
		addr, err := server.ReadLine(ctx)
		require.NoError(r.t, err)
		r.servers, r.urls = append(r.servers, server), append(r.urls, "http://"+addr)
	}
	var err error
	r.database, err = pgxpool.New(ctx, vars["BELFRY_DATABASE_URL"]+"&pool_max_conns=8&connect_timeout=1")
	require.NoError(r.t, err)
	r.t.Cleanup(r.database.Close)
}

// work starts all clients and the meters. The result stops them, and drains the queues of the chaos test.
func (r *run) work(ctx context.Context) (stop func()) {
	metering, endMeter := context.WithCancel(ctx)
	working, endWork := context.WithCancel(ctx)
	var meters, workers sync.WaitGroup
	for _, n := range r.cluster.nodes {
		meters.Go(func() { probeNode(metering, n, &r.commits) })
	}
	workers.Go(func() { r.chaos.Work(ctx, working) })
	for i := range r.urls {
		workers.Go(func() { r.numbered.produce(ctx, working, i) })
		meters.Go(func() { r.numbered.consume(ctx, metering, i) })
	}
	return func() {
		endWork()
		workers.Wait()
		draining, cancel := context.WithTimeout(ctx, drainPatience)
		defer cancel()
		_, err := r.database.Exec(draining, "SELECT belfry.wake()")
		require.NoError(r.t, err)
		require.NoError(r.t, r.chaos.Drain(draining, func(ctx context.Context) (int64, error) {
			return workload.Remaining(ctx, r.database, r.chaos.Reads())
		}))
		for len(r.numbered.missing()) > 0 && pause(draining, lookInterval) {
		}
		endMeter()
		meters.Wait()
	}
}

// fault is a disturbance of the primary. run injects it and returns how to repair it.
type fault struct {
	name string
	run  func(primary *node) (repair func() error)
}

// injectAll injects the faults of the flags, one after the other.
func (r *run) injectAll(ctx context.Context) {
	nothing := func() error { return nil }
	switchover := fault{"switchover", func(primary *node) func() error {
		require.NoError(r.t, r.cluster.switchOver(ctx, primary))
		return nothing
	}}
	freeze := fault{"frozen primary", func(primary *node) func() error {
		thaw := primary.freeze()
		return func() error {
			if *thaws {
				thaw()
				return nil
			}
			primary.kill() // as a watchdog does
			return primary.start()
		}
	}}
	kill := fault{"kill -9 of the primary", func(primary *node) func() error {
		primary.kill()
		return primary.start
	}}
	faults := slices.Concat(slices.Repeat([]fault{switchover}, *switchovers), slices.Repeat([]fault{freeze}, *freezes), slices.Repeat([]fault{kill}, *kills))
	for i, f := range faults {
		if i > 0 { // a standby that is not in its role yet cannot become the primary
			r.cluster.untilWhole(ctx, r.t)
		}
		r.inject(ctx, f)
	}
}

// inject injects a fault, waits until messages flow again, and repairs what the fault broke.
func (r *run) inject(ctx context.Context, f fault) {
	r.t.Helper()
	pause(ctx, calm)
	r.commits.take()
	r.numbered.longest()
	primary := r.cluster.leader(ctx)
	require.NotNil(r.t, primary)
	// Only commits that were acknowledged must survive.
	rewound := r.recorder.Begin(history.Operation{Kind: history.Rewound, Outcome: history.Done})
	repair := f.run(primary)
	done := time.Now()
	for !r.commits.since(done) || !r.numbered.flows(done) {
		require.True(r.t, time.Since(done) < faultPatience && pause(ctx, lookInterval), "%s: messages do not flow again", f.name)
	}
	pause(ctx, calm)
	commits := r.commits.take()
	pushes, deliveries := r.numbered.longest()
	r.t.Logf("%-22s without commits %6s, without pushes %6s, without deliveries %6s", f.name, round(commits), round(pushes), round(deliveries))
	require.NoError(r.t, repair())
	if pushes > commits+*maxDelay || deliveries > commits+*maxDelay {
		r.t.Errorf("%s: there were no commits for %s, no pushes for %s, no deliveries for %s: at most %s more is allowed", f.name, round(commits), round(pushes), round(deliveries), *maxDelay)
	}
	// A primary that was frozen can work for a moment after a thaw, and what it does then is lost.
	pause(ctx, calm)
	r.recorder.End(rewound)
	lasted := r.recorder.Now() - rewound.Begin
	r.windows = append(r.windows, check.FaultWindow{Begin: rewound.Begin, End: r.recorder.Now(), Allowance: lasted, SQLAllowance: lasted})
}

// judge checks that all messages have arrived, and the rules of the chaos test.
func (r *run) judge(ctx context.Context) {
	r.t.Logf("%d numbered messages were accepted", r.numbered.pushed)
	require.Empty(r.t, r.numbered.missing())
	operations := r.recorder.Operations()
	r.chaos.Resolve(operations)
	state, err := check.ReadAll(ctx, r.database, r.chaos.Queues(), nil, r.recorder.Began())
	require.NoError(r.t, err)
	r.t.Logf("%d operations of the chaos workload", len(operations))
	require.Empty(r.t, r.chaos.Complaints())
	for _, v := range check.Run(operations, state, check.Options{
		WakeBound: wakeBound, LeaseDuration: workload.LeaseTime + 2*time.Second, IdleAfter: world.IdleAfter, Windows: r.windows,
	}) {
		if v.Late() { // the delay of deliveries is measured above
			r.t.Log(v)
			continue
		}
		r.t.Error(v)
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
