package sweep

import (
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

var (
	messages   = flag.Int("messages", 20_000, "messages to delete")
	partitions = flag.Int("partitions", 2000, "partitions of the queue that is deleted")
	quiet      = flag.Duration("quiet", 2*time.Second, "how long the load runs without the work")
	limit      = flag.Float64("limit", 0, "highest ratio of p99 with to p99 without the work; 0: only reported")
)

// compare reports the load with the work beside the one without.
func compare(t *testing.T, without, with *latencies, took time.Duration) {
	t.Helper()
	for _, verb := range []struct {
		name          string
		without, with time.Duration
	}{{"push", p99(without.push), p99(with.push)}, {"pop", p99(without.pop), p99(with.pop)}} {
		ratio := float64(verb.with) / float64(verb.without)
		t.Logf("%s: p99 %s without, %s with: ratio %.2f", verb.name, verb.without, verb.with, ratio)
		if *limit > 0 {
			require.LessOrEqual(t, ratio, *limit, verb.name)
		}
	}
	t.Logf("the work took %s", took.Round(time.Millisecond))
}

func forAWhile(elapsed time.Duration) bool { return elapsed >= *quiet }

// The old messages lie in the same partitions that are pushed to and popped from.
func TestRetentionUnderLoad(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Sweep.RetentionInterval = 500 * time.Millisecond })
	r.fill("live", lanes, *messages)
	_, err := r.pop(t.Context())
	require.NoError(t, err, "the group joins behind the old messages")
	r.load(forAWhile) // warms up
	without := r.load(forAWhile)

	_, err = r.call(t.Context(), http.MethodPost, "/api/v1/configure",
		`{"queue":"live","options":{"retentionEnabled":true,"retentionSeconds":3600}}`)
	require.NoError(t, err)
	old := func() int64 {
		return r.number(`SELECT count(*) FROM belfry.partition p WHERE p.name <> 'Default' AND p.trimmed < $1`, *messages/lanes)
	}
	took := time.Duration(0)
	with := r.load(func(elapsed time.Duration) bool {
		if took == 0 && old() == 0 {
			took = elapsed
		}
		return took > 0
	})
	compare(t, without, with, took)
	require.Zero(t, r.number("SELECT count(*) FROM belfry.message WHERE created_at < now() - interval '1 h'"))
	require.Equal(t, int64(*messages), r.number("SELECT retention FROM belfry.queue_sweep"))
	require.Zero(t, r.number("SELECT unread FROM belfry.queue_sweep"), "the only group began behind them")
}

// Another queue is deleted; a queue of its name inherits nothing.
func TestDeletionUnderLoad(t *testing.T) {
	r := newRig(t)
	_, err := r.call(t.Context(), http.MethodPost, "/api/v1/push", pushBody(0))
	require.NoError(t, err)
	_, err = r.pop(t.Context())
	require.NoError(t, err)
	r.fill("big", *partitions, *messages)
	_, err = r.call(t.Context(), http.MethodGet, "/api/v1/pop/queue/big?consumerGroup=g", "")
	require.NoError(t, err)
	r.load(forAWhile) // warms up
	without := r.load(forAWhile)

	id := r.number("SELECT id FROM belfry.queue WHERE name = 'big'")
	answered := make(chan time.Duration, 1)
	began := time.Now()
	go func() {
		if _, err := r.call(t.Context(), http.MethodDelete, "/api/v1/resources/queues/big", ""); err == nil {
			answered <- time.Since(began)
		}
	}()
	var took, answer time.Duration
	with := r.load(func(elapsed time.Duration) bool {
		select {
		case answer = <-answered:
		default:
		}
		if r.number("SELECT count(*) FROM belfry.queue WHERE id = $1", id) == 0 {
			took = elapsed
		}
		return took > 0 && answer > 0
	})
	t.Logf("the request took %s", answer.Round(time.Millisecond))
	compare(t, without, with, took)
	require.Zero(t, r.number("SELECT count(*) FROM belfry.partition WHERE queue_id = $1", id))
	require.Zero(t, r.number("SELECT count(*) FROM belfry.message WHERE created_at < now() - interval '1 h'"))
	require.Zero(t, r.number(`SELECT count(*) FROM belfry.cursor c WHERE NOT EXISTS (SELECT 1 FROM belfry.partition p WHERE p.id = c.partition_id)`))
	require.Zero(t, r.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
}
