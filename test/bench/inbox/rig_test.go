package inbox

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

var (
	samples = flag.Int("samples", 20, "commits whose way to a waiting consumer is timed")
	rows    = flag.Int("rows", 5000, "rows of the COPY")
	load    = flag.Duration("load", 300*time.Millisecond, "how long each load runs")
	rounds  = flag.Int("rounds", 2, "how often the loads take turns")
	open    = flag.Duration("open", time.Second, "how long a transaction is left open")
	limits  = flag.Bool("limits", false, "fail when a figure is not what is promised, for which the machine should do nothing else")
)

func TestMain(m *testing.M) {
	if code, ok := child(); ok {
		os.Exit(code)
	}
	pgtest.Main(m)
}

// patience bounds the whole of one test.
const patience = 10 * time.Minute

// rig is a server on a database of its own.
type rig struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // it bounds the test
	dsn  string
	conn *pgx.Conn
	base string
	http *http.Client
	// sent counts messages, whose transaction ids it makes.
	sent int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dsn := pgtest.Database(t)
	r := &rig{
		t: t, dsn: dsn, base: startServer(t, dsn), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
	}
	t.Cleanup(r.http.CloseIdleConnections)
	var finish context.CancelFunc
	r.ctx, finish = context.WithTimeout(t.Context(), patience)
	t.Cleanup(finish)
	r.conn = r.connect()
	return r
}

func (r *rig) connect() *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.Connect(r.ctx, r.dsn)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (r *rig) exec(statement string, args ...any) {
	r.t.Helper()
	_, err := r.conn.Exec(r.ctx, statement, args...)
	require.NoError(r.t, err)
}

func (r *rig) number(query string, args ...any) (n int64) {
	r.t.Helper()
	require.NoError(r.t, r.conn.QueryRow(r.ctx, query, args...).Scan(&n))
	return n
}

// drained waits until the inbox is empty.
func (r *rig) drained() {
	r.t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for r.number("SELECT count(*) FROM (SELECT 1 FROM belfry.inbox LIMIT 1) AS i") > 0 {
		select {
		case <-ticker.C:
		case <-r.ctx.Done():
			require.FailNow(r.t, "the inbox was not drained")
		}
	}
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

// arrival is a message at a consumer.
type arrival struct {
	id string
	at time.Time
}

// consume waits for messages of a queue, one by one, until ctx ends.
func (r *rig) consume(ctx context.Context, queue string, arrivals chan<- arrival) error {
	for ctx.Err() == nil {
		raw, err := r.call(ctx, http.MethodGet, "/api/v1/pop/queue/"+queue+"?wait=true&timeout=30000&autoAck=true", "")
		at := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		var body struct {
			Messages []struct{ TransactionID string }
		}
		if err == nil && len(raw) > 0 {
			err = json.Unmarshal(raw, &body)
		}
		if err != nil {
			return err
		}
		for _, m := range body.Messages {
			arrivals <- arrival{m.TransactionID, at}
		}
	}
	return nil
}

// waiting blocks until n requests wait.
func (r *rig) waiting(n int) {
	r.t.Helper()
	for {
		raw, err := r.call(r.ctx, http.MethodGet, "/health", "")
		require.NoError(r.t, err)
		var health struct{ Waiting int }
		require.NoError(r.t, json.Unmarshal(raw, &health))
		if health.Waiting == n {
			return
		}
	}
}

func quantile(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*percent/100)].Round(10 * time.Microsecond)
}

// promised says that a figure is not what is promised, and fails the test for it
// with -limits.
func (r *rig) promised(kept bool, what string) {
	r.t.Helper()
	switch {
	case kept:
	case *limits:
		r.t.Errorf("missed: %s", what)
	default:
		r.t.Logf("missed: %s", what)
	}
}

// times is how much longer the slowest hundredth of some took than that of others.
func times(some, others []time.Duration) float64 {
	return float64(quantile(some, 99)) / float64(quantile(others, 99))
}
