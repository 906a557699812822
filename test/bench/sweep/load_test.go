package sweep

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) {
	if code, ok := rig.RunChild(nil); ok {
		os.Exit(code)
	}
	pgtest.Main(m)
}

const (
	// liveQueue is the queue under load. It has the number lanes of partitions.
	liveQueue = "live"
	lanes     = 100
	// workers is the number of producers. The interval pace separates two requests of a producer or consumer.
	workers = 4
	pace    = 10 * time.Millisecond
	perPush = 10
	// patience limits the time of one test.
	patience = 20 * time.Minute
)

// fixture is a server with a large queue.
type fixture struct{ *rig.Test }

func newFixture(t *testing.T, env ...string) fixture {
	t.Helper()
	return fixture{rig.NewTest(t, patience, env...)}
}

// join registers the group of the load in the live queue. The group does not get older messages.
func (f fixture) join() {
	f.T.Helper()
	_, err := f.Server.Call(f.Ctx, http.MethodGet,
		"/api/v1/pop/queue/live?batch=100&partitions=100&autoAck=true&consumerGroup=g&subscriptionMode=new", nil, nil)
	require.NoError(f.T, err)
}

// fill adds messages that are two hours old to a queue, evenly distributed over new partitions.
func (f fixture) fill(queue string, partitions, messages int) {
	f.T.Helper()
	require.NoError(f.T, f.Server.Configure(f.Ctx, queue, nil))
	f.Exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT q.id, 'p' || i, $3::int, clock_timestamp() - interval '2 h'
		  FROM belfry.queue q, generate_series(0, $2::int - 1) i WHERE q.name = $1`, queue, partitions, messages/partitions)
	f.Exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, s, p.last_push_at, gen_random_uuid(), 't' || s, '{"a": 1}'
		  FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id, generate_series(1, p.last_seq) s
		 WHERE q.name = $1`, queue)
	f.Exec("VACUUM ANALYZE belfry.message")
	f.Exec("CHECKPOINT")
}

// load pushes and pops until stop returns true. It verifies that every message arrives once. It returns the times of pushes
// and pops.
func (f fixture) load(stop func(elapsed time.Duration) bool) *load.Meter {
	f.T.Helper()
	t := &load.Traffic{Client: f.Server.Client, Meter: load.NewMeter(), Groups: []string{"g"}}
	config := load.LedgerConfig{Groups: 1}
	for i := range lanes {
		config.Lanes = append(config.Lanes, load.Lane{Queue: liveQueue, Partition: fmt.Sprintf("p%d", i)})
	}
	t.Ledger = load.NewLedger(config)
	began := time.Now()
	t.Meter.Measure(began, time.Time{})
	running := load.NewWorkers(f.Ctx)
	for _, p := range t.NewProducers(workers, perPush, perPush) {
		running.Go(func(ctx context.Context) error {
			return everyPace(ctx, func() error {
				_, err := p.Push(ctx, time.Now())
				return err
			})
		})
		c := t.NewConsumer(popOptions)
		running.Go(func(ctx context.Context) error {
			return everyPace(ctx, func() error {
				// With autoAck an interrupted pop would lose messages.
				d, err := c.Pop(context.WithoutCancel(ctx), false)
				t.Meter.Time(load.TimePop, d.Sent, d.Sent, d.At)
				return err
			})
		})
	}
	for !stop(time.Since(began)) {
		require.NoError(f.T, load.Pause(running.Context, 100*time.Millisecond), "the load takes too long or has failed")
	}
	require.NoError(f.T, running.Stop())
	require.NoError(f.T, t.Search(f.Ctx, popOptions))
	require.NoError(f.T, rig.Failures(t.Meter))
	counts := t.Ledger.Counts()
	counts.Stuck = 0 // the consumers do not wait, so a message that only Search found is not stuck
	require.Equal(f.T, load.Counts{Pushed: counts.Pushed, Delivered: counts.Pushed}, counts, "every pushed message must be popped once and in order")
	return t.Meter
}

var popOptions = load.PopOptions{Queue: liveQueue, Batch: 100, Partitions: 100, AutoAck: true}

// everyPace calls request at a fixed pace until ctx ends. It skips calls that become due during a slow request.
func everyPace(ctx context.Context, request func() error) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := request(); err != nil {
			return err
		}
	}
}
