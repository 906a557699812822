package inbox

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

const (
	// connections is the number of connections that insert single rows.
	connections = 32
	// pace is the time between two pushes over HTTP.
	pace = 5 * time.Millisecond
)

// design is a way to insert rows.
type design struct {
	name, setting, insert string
}

var designs = []design{
	// The table naive is like the inbox, but its trigger notifies for each row.
	{"naive", "", `INSERT INTO naive (queue, payload) VALUES ('n', '{"hello": "world"}')`},
	{"inbox", "", `INSERT INTO belfry.inbox (queue, payload) VALUES ('i', '{"hello": "world"}')`},
	{"inbox, notify off", "SET belfry.notify = off", `INSERT INTO belfry.inbox (queue, payload) VALUES ('i', '{"hello": "world"}')`},
	{"inbox, 10 rows a transaction", "", `INSERT INTO belfry.inbox (queue, payload) SELECT 'i', '{"hello": "world"}' FROM generate_series(1, 10)`},
}

// plain inserts into a table without a trigger.
var plain = design{"plain", "", `INSERT INTO plain (queue, payload) VALUES ('p', '{"hello": "world"}')`}

// pushDuring pushes over HTTP at a fixed pace while work runs. It returns the times of the pushes.
func (f *fixture) pushDuring(work func()) *load.Times {
	f.T.Helper()
	took := load.NewTimes()
	pushes := load.NewWorkers(f.Ctx)
	pushes.Go(func(ctx context.Context) error {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
			item := map[string]any{"queue": "http", "payload": 1}
			resp, err := f.Server.Call(f.Ctx, http.MethodPost, "/api/v1/push", map[string]any{"items": []any{item}}, nil)
			if err != nil {
				return err
			}
			took.Add(resp.At.Sub(resp.Sent))
		}
	})
	work()
	require.NoError(f.T, pushes.Stop())
	return took
}

// createNaive creates the tables naive and plain, and listens to the notifications of naive. The returned function returns
// the number of notifications.
func (f *fixture) createNaive() (notifications func() int) {
	f.T.Helper()
	f.Exec(`CREATE TABLE plain (LIKE belfry.inbox INCLUDING ALL);
		CREATE TABLE naive (LIKE belfry.inbox INCLUDING ALL);
		CREATE FUNCTION naive_notify() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_notify('naive', NEW.queue || '/' || NEW.id); RETURN NULL; END $$;
		CREATE TRIGGER naive_notify AFTER INSERT ON naive FOR EACH ROW EXECUTE FUNCTION naive_notify()`)
	listener := f.Connect()
	_, err := listener.Exec(f.Ctx, "LISTEN naive")
	require.NoError(f.T, err)
	listening, stop := context.WithCancel(f.Ctx)
	counted := make(chan int, 1)
	go func() {
		n := 0
		for ; err == nil; n++ {
			_, err = listener.WaitForNotification(listening)
		}
		counted <- n
	}()
	return func() int {
		stop()
		return <-counted
	}
}

// timeSequencing wakes the sequencer and returns the time until the inbox is empty.
func (f *fixture) timeSequencing() time.Duration {
	f.T.Helper()
	began := time.Now()
	f.Exec("SELECT belfry.wake()")
	f.waitSequenced()
	return time.Since(began)
}

func newTimes(n int) []*load.Times {
	all := make([]*load.Times, n)
	for i := range all {
		all[i] = load.NewTimes()
	}
	return all
}

// turns returns the numbers below n in cyclic order. Each round starts with another number.
func turns(round, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (round + i) % n
	}
	return order
}

// The designs alternate, so that a slow period of the machine affects all of them.
func TestManySmallInserts(t *testing.T) {
	f := newFixture(t)
	notifications := f.createNaive()
	designs := append(slices.Clone(designs), plain)
	for _, d := range designs { // fills caches, and measures each design alone
		f.insertAlone(d)
		t.Logf("%-28s %6.0f statements/s alone", d.name, f.insertAlone(d))
		f.timeSequencing()
	}
	quiet := load.NewTimes()
	rates, pushes := make([]float64, len(designs)), newTimes(len(designs))
	left := make([]time.Duration, len(designs))
	for round := range *rounds {
		quiet.Merge(f.pushDuring(func() { <-time.After(*duration) }))
		for _, i := range turns(round, len(designs)) {
			l := f.startInserter(designs[i], 0)
			pushes[i].Merge(f.pushDuring(func() { rates[i] += l.run() / float64(*rounds) }))
			l.stop()
			left[i] = max(left[i], f.timeSequencing())
		}
	}
	t.Logf("pushes over HTTP alone: p50 %s, p99 %s (%d pushes)", quantile(quiet, 0.5), quantile(quiet, 0.99), quiet.Count())
	for i, d := range designs {
		t.Logf("%-28s %6.0f statements/s, %.2f times the naive design; pushes over HTTP at the same time: p50 %s, p99 %s, %.2f times the time without inserts; "+
			"the inbox was empty at most %s later", d.name, rates[i], rates[i]/rates[0], quantile(pushes[i], 0.5), quantile(pushes[i], 0.99),
			ratio(pushes[i], quiet), left[i].Round(time.Millisecond))
	}
	f.target(rates[1] >= rates[0], "the inbox has at least the rate of the naive design")
	f.target(ratio(pushes[1], quiet) <= 2, "p99 of pushes during unlimited inserts at most 2 times the p99 without inserts")
	require.Greater(t, rates[1], rates[0]/4, "the inbox must have at least a quarter of the rate of the naive design")
	require.Greater(t, notifications(), 1)
	f.requireStoredOnce()
}

// requireStoredOnce checks that each row of the inbox became exactly one message.
func (f *fixture) requireStoredOnce() {
	f.T.Helper()
	require.Equal(f.T, f.Number("SELECT last_value FROM belfry.inbox_id_seq"),
		f.Number("SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'i'"),
		"each row must be stored once")
}

// TestPacedInserts runs each design at the rate of the naive design and compares the times of pushes over HTTP. A short run
// has too few pushes for a p99: use 24 rounds.
func TestPacedInserts(t *testing.T) {
	f := newFixture(t)
	notifications := f.createNaive()
	paced := []design{designs[0], designs[1], plain}
	for _, d := range paced { // fills caches
		f.insertAlone(d)
		f.timeSequencing()
	}
	quiet := load.NewTimes()
	var rate float64
	rates, pushes, ratios := make([]float64, len(paced)), newTimes(len(paced)), make([][]float64, len(paced))
	for round := range *rounds {
		alone := f.pushDuring(func() { <-time.After(*duration) })
		quiet.Merge(alone)
		var most float64
		first := f.startInserter(paced[0], 0)
		f.pushDuring(func() { most = first.run() })
		first.stop()
		rate += most / float64(*rounds)
		for _, i := range turns(round, len(paced)) {
			l := f.startInserter(paced[i], most)
			beside := f.pushDuring(func() { rates[i] += l.run() / float64(*rounds) })
			l.stop()
			f.timeSequencing()
			pushes[i].Merge(beside)
			ratios[i] = append(ratios[i], ratio(beside, alone))
		}
	}
	t.Logf("the naive design makes %.0f statements/s; pushes over HTTP alone: p50 %s, p99 %s (%d pushes)",
		rate, quantile(quiet, 0.5), quantile(quiet, 0.99), quiet.Count())
	for i, d := range paced {
		slices.Sort(ratios[i])
		t.Logf("%-6s at that pace: %6.0f statements/s; pushes over HTTP at the same time: p50 %s, p99 %s, %.2f times the time without inserts (%.2f in the median round)",
			d.name, rates[i], quantile(pushes[i], 0.5), quantile(pushes[i], 0.99), ratio(pushes[i], quiet), ratios[i][len(ratios[i])/2])
	}
	f.target(rates[1] >= 0.98*rate, "the inbox reaches the rate of the naive design")
	f.target(ratio(pushes[1], quiet) <= 2, "p99 of pushes at that rate at most 2 times the p99 without inserts")
	require.Greater(t, notifications(), 1)
	f.requireStoredOnce()
}
