package sweep

import (
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

var (
	messages   = flag.Int("messages", 20_000, "messages that the work deletes")
	partitions = flag.Int("partitions", 2000, "partitions of the deleted queue")
	quiet      = flag.Duration("quiet", 300*time.Millisecond, "duration of the load without retention or deletion")
	limit      = flag.Float64("limit", 0, "limit for the p99 with the work divided by the p99 without it; 0 means that the ratio is only reported")
)

// compare reports the times with the work (retention or deletion) and without it.
func compare(t *testing.T, without, with *load.Meter, took time.Duration) {
	t.Helper()
	for _, name := range []string{load.TimePush, load.TimePop} {
		p99Without, p99With := without.Times[name].Quantile(0.99), with.Times[name].Quantile(0.99)
		ratio := float64(p99With) / float64(p99Without)
		t.Logf("%s: p99 %s without, %s with: ratio %.2f", name, p99Without, p99With, ratio)
		if *limit > 0 {
			require.LessOrEqual(t, ratio, *limit, name)
		}
	}
	t.Logf("the work took %s", took.Round(time.Millisecond))
}

func forQuiet(elapsed time.Duration) bool { return elapsed >= *quiet }

// The retention deletes old messages in the partitions under load.
func TestRetentionUnderLoad(t *testing.T) {
	r := newFixture(t, "BELFRY_SWEEP_RETENTION_INTERVAL=500ms")
	r.fill(liveQueue, lanes, *messages)
	r.join()
	r.load(forQuiet) // fills caches
	without := r.load(forQuiet)

	r.Post("/api/v1/configure", `{"queue":"live","options":{"retentionEnabled":true,"retentionSeconds":3600}}`)
	old := func() int64 {
		return r.Number(`SELECT count(*) FROM belfry.partition p WHERE p.name <> 'Default' AND p.trimmed < $1`, *messages/lanes)
	}
	took := time.Duration(0)
	with := r.load(func(elapsed time.Duration) bool {
		if took == 0 && old() == 0 {
			took = elapsed
		}
		return took > 0
	})
	compare(t, without, with, took)
	require.Zero(t, r.Number("SELECT count(*) FROM belfry.message WHERE created_at < now() - interval '1 h'"))
	require.Equal(t, int64(*messages), r.Number("SELECT retention FROM belfry.queue_sweep"))
	require.Zero(t, r.Number("SELECT unread FROM belfry.queue_sweep"), "no message was unread, because the only group joined after the old messages")
}

// During the load, the server deletes another queue with all its rows.
func TestDeletionUnderLoad(t *testing.T) {
	r := newFixture(t)
	require.NoError(t, r.Server.Configure(r.Ctx, liveQueue, nil))
	r.join()
	r.fill("big", *partitions, *messages)
	_, err := r.Server.Call(r.Ctx, http.MethodGet, "/api/v1/pop/queue/big?consumerGroup=g", nil, nil)
	require.NoError(t, err)
	r.load(forQuiet) // fills caches
	without := r.load(forQuiet)

	id := r.Number("SELECT id FROM belfry.queue WHERE name = 'big'")
	answered := make(chan time.Duration, 1)
	began := time.Now()
	go func() {
		if r.Server.Delete(r.Ctx, "big") == nil {
			answered <- time.Since(began)
		}
	}()
	var took, answer time.Duration
	with := r.load(func(elapsed time.Duration) bool {
		select {
		case answer = <-answered:
		default:
		}
		if r.Number("SELECT count(*) FROM belfry.queue WHERE id = $1", id) == 0 {
			took = elapsed
		}
		return took > 0 && answer > 0
	})
	t.Logf("the request took %s", answer.Round(time.Millisecond))
	compare(t, without, with, took)
	require.Zero(t, r.Number("SELECT count(*) FROM belfry.partition WHERE queue_id = $1", id))
	require.Zero(t, r.Number("SELECT count(*) FROM belfry.message WHERE created_at < now() - interval '1 h'"))
	require.Zero(t, r.Number(`SELECT count(*) FROM belfry.cursor c WHERE NOT EXISTS (SELECT 1 FROM belfry.partition p WHERE p.id = c.partition_id)`))
	require.Zero(t, r.Number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
}
