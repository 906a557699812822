package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	// lanes are the partitions of the queue under load.
	lanes = 100
	// pace is the pause between two requests of one worker: an open loop, so that
	// a slow answer does not thin the load out.
	pace = 10 * time.Millisecond
	// workers push, and as many pop.
	workers = 4
	// patience bounds the whole of one test.
	patience = 20 * time.Minute
)

// rig is a server on a database of its own.
type rig struct {
	t    *testing.T
	conn *pgx.Conn
	base string
	http *http.Client
}

func newRig(t *testing.T, options ...func(*config.Config)) *rig {
	t.Helper()
	cfg := config.Default()
	cfg.Database.URL = pgtest.Database(t)
	cfg.Database.RequestTimeout = time.Minute
	cfg.HTTP.Addr = "127.0.0.1:0"
	for _, option := range options {
		option(&cfg)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	addr, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, zap.NewNop(), func(a net.Addr) { addr <- a }) }()
	r := &rig{t: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 3 * workers}}}
	t.Cleanup(func() {
		r.http.CloseIdleConnections()
		cancel()
		require.NoError(t, <-done)
	})
	select {
	case a := <-addr:
		r.base = "http://" + a.String()
	case <-time.After(time.Minute):
		require.FailNow(t, "the server did not start")
	}
	var err error
	r.conn, err = pgx.Connect(t.Context(), cfg.Database.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close(context.Background()) })
	return r
}

func (r *rig) exec(statement string, args ...any) {
	r.t.Helper()
	_, err := r.conn.Exec(r.t.Context(), statement, args...)
	require.NoError(r.t, err)
}

func (r *rig) number(query string, args ...any) (n int64) {
	r.t.Helper()
	require.NoError(r.t, r.conn.QueryRow(r.t.Context(), query, args...).Scan(&n))
	return n
}

// call makes one request and returns the body.
func (r *rig) call(ctx context.Context, method, target, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.base+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %d %s", method, target, response.StatusCode, raw)
	}
	return raw, err
}

// fill gives a queue messages that are two hours old, evenly over partitions
// that nobody has pushed to yet.
func (r *rig) fill(queue string, partitions, messages int) {
	r.t.Helper()
	raw, err := r.call(r.t.Context(), http.MethodPost, "/api/v1/configure", `{"queue":"`+queue+`"}`)
	require.NoError(r.t, err, "%s", raw)
	r.exec(`INSERT INTO belfry.partition (queue_id, name, last_seq, last_push_at)
		SELECT q.id, 'p' || i, $3::int, clock_timestamp() - interval '2 h'
		  FROM belfry.queue q, generate_series(0, $2::int - 1) i WHERE q.name = $1`, queue, partitions, messages/partitions)
	r.exec(`INSERT INTO belfry.message (partition_id, seq, created_at, id, transaction_id, payload)
		SELECT p.id, s, p.last_push_at, gen_random_uuid(), 't' || s, '{"a": 1}'
		  FROM belfry.queue q JOIN belfry.partition p ON p.queue_id = q.id, generate_series(1, p.last_seq) s
		 WHERE q.name = $1`, queue)
	r.exec("VACUUM ANALYZE belfry.message")
	r.exec("CHECKPOINT")
}

// latencies are what one load measured.
type latencies struct {
	mu             sync.Mutex
	push, pop      []time.Duration
	pushed, popped int
	failures       []error
}

func (l *latencies) note(into *[]time.Duration, count *int, n int, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*into = append(*into, took)
	*count += n
	if err != nil {
		l.failures = append(l.failures, err)
	}
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100]
}

// load pushes and pops until stop says so, and then pops what is left.
func (r *rig) load(stop func(elapsed time.Duration) bool) *latencies {
	r.t.Helper()
	l := &latencies{}
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	ended := make(chan struct{})
	var all sync.WaitGroup
	every := func(work func(n int)) {
		all.Go(func() {
			ticker := time.NewTicker(pace)
			defer ticker.Stop()
			for n := 0; ; n++ {
				select {
				case <-ticker.C:
					work(n)
				case <-ended:
					return
				}
			}
		})
	}
	for w := range workers {
		every(func(n int) {
			began := time.Now()
			_, err := r.call(ctx, http.MethodPost, "/api/v1/push", pushBody(w*31+n))
			l.note(&l.push, &l.pushed, perPush, time.Since(began), err)
		})
		every(func(int) {
			began := time.Now()
			n, err := r.pop(ctx)
			l.note(&l.pop, &l.popped, n, time.Since(began), err)
		})
	}
	began, look := time.Now(), time.NewTicker(100*time.Millisecond)
	defer look.Stop()
	for !stop(time.Since(began)) {
		select {
		case <-look.C:
		case <-ctx.Done():
			require.FailNow(r.t, "it took too long")
		}
	}
	close(ended)
	all.Wait()
	for {
		n, err := r.pop(ctx)
		require.NoError(r.t, err)
		if n == 0 {
			break
		}
		l.popped += n
	}
	require.Empty(r.t, l.failures)
	require.Equal(r.t, l.pushed, l.popped, "what was pushed under load was popped, once")
	return l
}

// perPush is how many messages one push carries.
const perPush = 10

func pushBody(n int) string {
	items := make([]string, perPush)
	for i := range items {
		items[i] = fmt.Sprintf(`{"queue":"live","partition":"p%d","payload":{"n":%d}}`, (n*perPush+i)%lanes, n)
	}
	return `{"items":[` + strings.Join(items, ",") + `]}`
}

// pop takes what there is for the group that came when the old messages were there.
func (r *rig) pop(ctx context.Context) (n int, err error) {
	raw, err := r.call(ctx, http.MethodGet,
		"/api/v1/pop/queue/live?batch=100&partitions=100&autoAck=true&consumerGroup=g&subscriptionMode=new", "")
	if err != nil || len(raw) == 0 {
		return 0, err
	}
	var d struct{ Messages []json.RawMessage }
	err = json.Unmarshal(raw, &d)
	return len(d.Messages), err
}
