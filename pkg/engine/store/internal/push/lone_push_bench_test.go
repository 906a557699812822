package push

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/delivered"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func newPusher(b *testing.B) *Pusher {
	b.Helper()
	cfg := postgres.DefaultConfig()
	cfg.URL = setting.Secret(pgtest.Database(b))
	pool, err := postgres.Open(b.Context(), cfg, "push-test", 0)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	bus, log, reg := &events.Bus{}, zap.NewNop(), prometheus.NewRegistry()
	waker := wake.New(pool, bus, log)
	floors := scanfloor.New()
	directory := names.New(names.Deps{Pool: pool, Events: bus, Waker: waker, Floors: floors, Defaults: queue.DefaultDefaults(), Log: log})
	metrics := groupcommit.NewMetrics(reg)
	claims := claim.New(claim.Deps{
		Pool: pool, Names: directory, Waker: waker, Floors: floors, Delivered: delivered.New(),
		Metrics: claim.NewMetrics(reg), Log: log,
	}, batch.DefaultConfig(), metrics)
	p := New(Deps{
		Pool: pool, Names: directory, Quotas: quota.New(nil), Waker: waker, Claims: claims,
		Handoffs: func(_, _ string) []queue.Handoff { return nil },
	}, batch.DefaultConfig(), metrics)
	b.Cleanup(func() { require.NoError(b, p.Close(context.Background())) })
	return p
}

// BenchmarkLonePush measures the cost of group commit for a single caller. Pushes with and without
// group commit alternate, so that other load of the machine affects both equally. It reports the
// medians in milliseconds and their ratio.
func BenchmarkLonePush(b *testing.B) {
	p := newPusher(b)
	items := []queue.PushItem{{Queue: "q", Partition: "p", Payload: []byte(`{}`)}}
	var managed, alone []time.Duration
	for b.Loop() {
		began := time.Now()
		_, err := p.Push(b.Context(), items)
		require.NoError(b, err)
		between := time.Now()
		call := NewCall(items)
		_, err = p.Open(b.Context(), call)
		require.NoError(b, err)
		_, err = p.flush(b.Context(), []*Call{call})
		require.NoError(b, err)
		managed, alone = append(managed, between.Sub(began)), append(alone, time.Since(between))
	}
	median := func(times []time.Duration) float64 {
		slices.Sort(times)
		return float64(times[len(times)/2].Microseconds()) / 1000
	}
	b.ReportMetric(median(managed), "managed-ms")
	b.ReportMetric(median(alone), "alone-ms")
	b.ReportMetric(median(managed)/median(alone), "ratio")
	b.ReportMetric(0, "ns/op")
}
