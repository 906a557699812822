package inbox

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// insertAll inserts for as long as a load takes and returns how many statements a
// second were committed.
func (r *rig) insertAll(d design) (rate float64) {
	r.t.Helper()
	conns := make([]*pgx.Conn, connections)
	for i := range conns {
		conns[i] = r.connect()
		if d.setting != "" {
			_, err := conns[i].Exec(r.ctx, d.setting)
			require.NoError(r.t, err)
		}
	}
	var mu sync.Mutex
	var failure error
	total := 0
	began := time.Now()
	var all sync.WaitGroup
	for _, conn := range conns {
		all.Go(func() {
			n := 0
			var err error
			for time.Since(began) < *load && err == nil {
				_, err = conn.Exec(r.ctx, d.insert)
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				failure = err
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	require.NoError(r.t, failure)
	for _, conn := range conns {
		require.NoError(r.t, conn.Close(r.ctx))
	}
	return float64(total) / took.Seconds()
}

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

func TestManySmallInserts(t *testing.T) {
	r := newRig(t)
	r.exec(`CREATE TABLE naive (LIKE belfry.inbox INCLUDING ALL);
		CREATE FUNCTION naive_notify() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_notify('naive', NEW.queue || '/' || NEW.id); RETURN NULL; END $$;
		CREATE TRIGGER naive_notify AFTER INSERT ON naive FOR EACH ROW EXECUTE FUNCTION naive_notify()`)
	listener := r.connect()
	_, err := listener.Exec(r.ctx, "LISTEN naive")
	require.NoError(t, err)
	listening, stop := context.WithCancel(r.ctx)
	heard := make(chan int, 1)
	go func() {
		n := 0
		for ; err == nil; n++ {
			_, err = listener.WaitForNotification(listening)
		}
		heard <- n
	}()
	pause := func() { <-time.After(*load) }
	r.beside(pause) // warms up
	quiet := r.beside(pause)
	t.Logf("pushes over HTTP alone: p50 %s, p99 %s", quantile(quiet, 50), quantile(quiet, 99))
	for _, d := range designs {
		r.insertAll(d) // warms up
		alone := r.insertAll(d)
		r.exec("SELECT belfry.wake()")
		r.drained()
		var rate float64
		pushes := r.beside(func() { rate = r.insertAll(d) })
		r.exec("SELECT belfry.wake()")
		began := time.Now()
		r.drained()
		t.Logf("%-28s %6.0f statements/s; beside pushes over HTTP %6.0f/s, whose p50 is %s, p99 %s; the inbox was empty %s later",
			d.name, alone, rate, quantile(pushes, 50), quantile(pushes, 99), time.Since(began).Round(time.Millisecond))
	}
	stop()
	require.Greater(t, <-heard, 1)
	require.Equal(t, r.number("SELECT last_value FROM belfry.inbox_id_seq"),
		r.number("SELECT count(*) FROM belfry.message m JOIN belfry.partition p ON p.id = m.partition_id JOIN belfry.queue q ON q.id = p.queue_id WHERE q.name = 'i'"),
		"each row is stored once")
}
