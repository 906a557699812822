package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench"
)

// The load generator must verify every scenario against a server and leave no queue and no table behind.
func TestBenchVerifiesTheServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	t.Run("scenarios", func(t *testing.T) {
		for _, scenario := range bench.Names() {
			t.Run(scenario, func(t *testing.T) {
				t.Parallel()
				benchVerifies(t, s, scenario)
			})
		}
	})
	var left, tables int
	s.scan(t, `SELECT count(*) FROM belfry.queue WHERE deleted_at IS NULL`, nil, &left)
	require.Zero(t, left, "the load generator must delete its queues")
	s.scan(t, `SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`, nil, &tables)
	require.Zero(t, tables, "the load generator must drop the tables of its baselines")
}

func benchVerifies(t *testing.T, s *server, scenario string) {
	settings := bench.Defaults()
	settings.URL, settings.DatabaseURL, settings.Baseline = s.base, s.dsn, true
	settings.Scenarios = []string{scenario}
	settings.Connections, settings.Batch, settings.Partitions, settings.Groups = 4, 5, 12, 3
	settings.Duration, settings.Warmup, settings.Backlog = 100*time.Millisecond, 0, 500
	report, err := bench.Run(t.Context(), settings)
	require.NoError(t, err)
	require.True(t, report.Verified)
	require.Len(t, report.Outcomes, 1)
	o := report.Outcomes[0]
	run := o.Runs[0]
	require.Empty(t, run.Errors)
	require.Empty(t, run.Faults)
	if scenario == "idle" {
		require.Zero(t, run.Counts.Pushed)
		return
	}
	require.Positive(t, run.Counts.Pushed)
	require.Equal(t, max(1, o.Settings.Groups)*run.Counts.Pushed, run.Counts.Delivered)
	require.NotNil(t, run.Baseline)
	require.Positive(t, run.Baseline.Rate)
}
