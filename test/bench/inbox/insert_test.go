package inbox

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// connections insert single rows.
	connections = 32
	// pace is the pause between two pushes over HTTP: an open loop, so that a slow
	// answer does not thin them out.
	pace = 5 * time.Millisecond
)

// design is a way to insert one row.
type design struct {
	name, setting, insert string
}

var designs = []design{
	// A table like the inbox, whose trigger notifies for each row, and one listener.
	{"naive", "", `INSERT INTO naive (queue, payload) VALUES ('n', '{"hello": "world"}')`},
	{"inbox", "", `INSERT INTO belfry.inbox (queue, payload) VALUES ('i', '{"hello": "world"}')`},
	{"inbox, notify off", "SET belfry.notify = off", `INSERT INTO belfry.inbox (queue, payload) VALUES ('i', '{"hello": "world"}')`},
	{"inbox, 10 rows a transaction", "", `INSERT INTO belfry.inbox (queue, payload) SELECT 'i', '{"hello": "world"}' FROM generate_series(1, 10)`},
}

// plain is what any other table costs: nobody is told, and nothing is sequenced.
var plain = design{"plain", "", `INSERT INTO plain (queue, payload) VALUES ('p', '{"hello": "world"}')`}

// pushing pushes over HTTP at a steady pace until ctx ends.
func (r *rig) pushing(ctx context.Context) (took []time.Duration, err error) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for err == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return took, nil
		}
		began := time.Now()
		_, err = r.call(r.ctx, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"http","payload":1}]}`)
		took = append(took, time.Since(began))
	}
	return took, err
}

// beside pushes over HTTP while work goes on.
func (r *rig) beside(work func()) []time.Duration {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	var took []time.Duration
	ended := make(chan error, 1)
	go func() {
		var err error
		took, err = r.pushing(ctx)
		ended <- err
	}()
	work()
	cancel()
	require.NoError(r.t, <-ended)
	return took
}

// naive makes the table of the naive design and listens to it; heard returns how
// many notifications came.
func (r *rig) naive() (heard func() int) {
	r.t.Helper()
	r.exec(`CREATE TABLE plain (LIKE belfry.inbox INCLUDING ALL);
		CREATE TABLE naive (LIKE belfry.inbox INCLUDING ALL);
		CREATE FUNCTION naive_notify() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_notify('naive', NEW.queue || '/' || NEW.id); RETURN NULL; END $$;
		CREATE TRIGGER naive_notify AFTER INSERT ON naive FOR EACH ROW EXECUTE FUNCTION naive_notify()`)
	listener := r.connect()
	_, err := listener.Exec(r.ctx, "LISTEN naive")
	require.NoError(r.t, err)
	listening, stop := context.WithCancel(r.ctx)
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

// emptied says that there are rows, and returns how long it takes until all are
// sequenced.
func (r *rig) emptied() time.Duration {
	r.t.Helper()
	began := time.Now()
	r.exec("SELECT belfry.wake()")
	r.drained()
	return time.Since(began)
}

// turns are the numbers below n, from another one on in each round: what a load leaves
// to be written and cleaned up meets each of the others.
func turns(round, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (round + i) % n
	}
	return order
}

// The designs take turns, so that an hour of a busy machine is shared by all.
func TestManySmallInserts(t *testing.T) {
	r := newRig(t)
	heard := r.naive()
	designs := append(slices.Clone(designs), plain)
	for _, d := range designs { // warms up, and measures each alone
		r.insertAll(d)
		t.Logf("%-28s %6.0f statements/s alone", d.name, r.insertAll(d))
		r.emptied()
	}
	var quiet []time.Duration
	rates, pushes := make([]float64, len(designs)), make([][]time.Duration, len(designs))
	left := make([]time.Duration, len(designs))
	for round := range *rounds {
		quiet = append(quiet, r.beside(func() { <-time.After(*load) })...)
		for _, i := range turns(round, len(designs)) {
			l := r.inserters(designs[i], 0)
			pushes[i] = append(pushes[i], r.beside(func() { rates[i] += l.run() / float64(*rounds) })...)
			l.end()
			left[i] = max(left[i], r.emptied())
		}
	}
	t.Logf("pushes over HTTP alone: p50 %s, p99 %s (%d pushes)", quantile(quiet, 50), quantile(quiet, 99), len(quiet))
	for i, d := range designs {
		t.Logf("%-28s %6.0f statements/s, %.2f times the naive ones; pushes over HTTP beside them: p50 %s, p99 %s, %.2f times the quiet one; "+
			"the inbox was empty at most %s later", d.name, rates[i], rates[i]/rates[0], quantile(pushes[i], 50), quantile(pushes[i], 99),
			times(pushes[i], quiet), left[i].Round(time.Millisecond))
	}
	r.promised(rates[1] >= rates[0], "at least the rate of the naive design")
	r.promised(times(pushes[1], quiet) <= 2, "p99 of pushes at most 2 times the quiet one, beside inserts as fast as they can")
	require.Greater(t, rates[1], rates[0]/4, "the inbox keeps up with the naive design")
	require.Greater(t, heard(), 1)
	r.storedOnce()
}

// storedOnce: each row of the inbox has become a message.
func (r *rig) storedOnce() {
	r.t.Helper()
	require.Equal(r.t, r.number("SELECT last_value FROM belfry.inbox_id_seq"),
		r.number("SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'i'"),
		"each row is stored once")
}

// All insert as fast as the naive design can, and no faster: what that does to pushes
// over HTTP. One in a hundred of a short load is too few to tell: 24 rounds are
// not too many.
func TestPacedInserts(t *testing.T) {
	r := newRig(t)
	heard := r.naive()
	paced := []design{designs[0], designs[1], plain}
	for _, d := range paced { // warms up
		r.insertAll(d)
		r.emptied()
	}
	var quiet []time.Duration
	var rate float64
	rates, pushes, ratios := make([]float64, len(paced)), make([][]time.Duration, len(paced)), make([][]float64, len(paced))
	for round := range *rounds {
		alone := r.beside(func() { <-time.After(*load) })
		quiet = append(quiet, alone...)
		var most float64
		first := r.inserters(paced[0], 0)
		r.beside(func() { most = first.run() })
		first.end()
		rate += most / float64(*rounds)
		for _, i := range turns(round, len(paced)) {
			l := r.inserters(paced[i], most)
			beside := r.beside(func() { rates[i] += l.run() / float64(*rounds) })
			l.end()
			r.emptied()
			pushes[i] = append(pushes[i], beside...)
			ratios[i] = append(ratios[i], times(beside, alone))
		}
	}
	t.Logf("the naive design makes %.0f statements/s; pushes over HTTP alone: p50 %s, p99 %s (%d pushes)",
		rate, quantile(quiet, 50), quantile(quiet, 99), len(quiet))
	for i, d := range paced {
		slices.Sort(ratios[i])
		t.Logf("%-6s at that pace: %6.0f statements/s; pushes over HTTP beside them: p50 %s, p99 %s, %.2f times the quiet one (%.2f in the median round)",
			d.name, rates[i], quantile(pushes[i], 50), quantile(pushes[i], 99), times(pushes[i], quiet), ratios[i][len(ratios[i])/2])
	}
	r.promised(rates[1] >= 0.98*rate, "the rate of the naive design")
	r.promised(times(pushes[1], quiet) <= 2, "p99 of pushes at most 2 times the quiet one, at that rate")
	require.Greater(t, heard(), 1)
	r.storedOnce()
}
