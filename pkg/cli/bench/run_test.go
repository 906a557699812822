package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// brief returns settings for a short run against a fake server.
func brief(url string, scenarios ...string) Settings {
	s := Defaults()
	s.URL, s.Scenarios = url, scenarios
	s.Connections, s.Batch, s.Partitions, s.Groups = 8, 5, 6, 3
	s.Duration, s.Warmup, s.Backlog = 150*time.Millisecond, 20*time.Millisecond, 700
	s.Patience = 10 * time.Second // a busy machine may stall for seconds
	return s
}

func TestEveryScenarioVerifiesACorrectServer(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		for _, autoAck := range []bool{false, true} {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				f := &fake{}
				s := brief(serveFake(t, f), sc.name)
				s.AutoAck, s.TransactionIDs = autoAck, autoAck
				if autoAck {
					s.Headers, f.headers = 3, 3
				}
				if sc.single {
					s.Duration = 400 * time.Millisecond // long enough for a second message
				}
				var report Report
				for {
					var err error
					report, err = Run(t.Context(), s)
					require.NoError(t, err)
					if sc.quiet || report.Outcomes[0].Runs[0].Messages > 0 || s.Duration > 20*time.Second {
						break
					}
					s.Duration *= 4 // a busy machine may complete no message in time
				}
				require.True(t, report.Verified)
				r := report.Outcomes[0].Runs[0]
				require.Empty(t, r.Errors)
				require.True(t, f.deleted)
				if sc.quiet {
					require.Zero(t, r.Counts.Pushed)
					return
				}
				require.Positive(t, r.Messages)
				require.NotEmpty(t, r.Latencies)
				groups := max(1, report.Outcomes[0].Settings.Groups)
				require.Equal(t, groups*r.Counts.Pushed, r.Counts.Delivered)
			})
		}
	}
}

func TestViolatedGuaranteesAreReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		fake *fake
		want string
	}{
		{"loses", &fake{lose: 8}, " acknowledged pushes were not delivered"}, // the number is higher if the machine stalls
		{"duplicates", &fake{again: 2}, "1 messages were delivered again"},
		{"swaps", &fake{swap: 8}, "were delivered out of order"},
		{"misplaces", &fake{mix: 2}, "with a queue, partition or number that was never pushed"},
	} {
		for _, scenario := range []string{"push", "pop", "end-to-end"} {
			t.Run(c.what+" in "+scenario, func(t *testing.T) {
				t.Parallel()
				f := &fake{lose: c.fake.lose, again: c.fake.again, swap: c.fake.swap, mix: c.fake.mix}
				s := brief(serveFake(t, f), scenario)
				s.Patience = 300 * time.Millisecond
				report, err := Run(t.Context(), s)
				require.ErrorIs(t, err, ErrBroken)
				require.False(t, report.Verified)
				require.Contains(t, strings.Join(report.Outcomes[0].Runs[0].Faults, "\n"), c.want)
				var table bytes.Buffer
				require.NoError(t, report.WriteTable(&table))
				require.Contains(t, table.String(), "BROKEN")
			})
		}
	}
}

func TestAFailedRequestIsNotAFault(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), brief(serveFake(t, &fake{fail: 1}), "end-to-end"))
	require.NoError(t, err)
	r := report.Outcomes[0].Runs[0]
	require.Equal(t, map[string]int{"503": 1}, r.Errors)
	require.Equal(t, 5, r.Counts.Unclear)
	require.Equal(t, r.Counts.Pushed+r.Counts.Unclear, r.Counts.Delivered, "the server delivers the push although it answered 503")
}

func TestOpenLoopMeasuresFromThePlannedStart(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		f := &fake{}
		if slow {
			f.takes = 50 * time.Millisecond
		}
		s := brief(serveFake(t, f), "push")
		// 100 pushes are planned. The slow server answers about 10 of them.
		s.Connections, s.Batch, s.Rate, s.Warmup, s.Duration = 1, 1, 200, 0, 500*time.Millisecond
		s.Patience = 10 * time.Second
		report, err := Run(t.Context(), s)
		require.NoError(t, err)
		r := report.Outcomes[0].Runs[0]
		require.Equal(t, 100, r.Latencies[0].Count, "the measurement has a time for every planned push")
		if slow {
			require.Less(t, r.Counts.Pushed, 20)
			require.Greater(t, r.Latencies[0].P50, 150.0, "the times include the wait of unsent pushes")
			require.Contains(t, strings.Join(r.Notes, "\n"), "the rate was not reached")
		}
	}
}

func TestInterruptKeepsTheMeasurements(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var requests atomic.Int64
			f := &fake{onRequest: func() {
				if requests.Add(1) == 5 {
					cancel()
				}
			}}
			s := brief(serveFake(t, f), sc.name)
			s.Duration = time.Minute
			s.Backlog = 1_000_000
			report, err := Run(ctx, s)
			require.ErrorIs(t, err, ErrInterrupted)
			require.Len(t, report.Outcomes, 1)
			r := report.Outcomes[0].Runs[0]
			require.True(t, r.Interrupted)
			require.Empty(t, r.Faults)
			require.True(t, f.deleted)
		})
	}
}

func TestRunsAndMedian(t *testing.T) {
	t.Parallel()
	s := brief(serveFake(t, &fake{}), "push", "idle")
	s.Repeat, s.Keep, s.Duration = 3, true, 200*time.Millisecond
	var terminal bytes.Buffer
	s.Progress = &terminal
	report, err := Run(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, report.Outcomes, 2)
	o := report.Outcomes[0]
	require.Len(t, o.Runs, 3)
	rates := []float64{o.Runs[0].Rate, o.Runs[1].Rate, o.Runs[2].Rate}
	require.InDelta(t, median(rates), o.Median.Rate, 0)
	require.Contains(t, rates, o.Median.Rate)
	require.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 0)
	var table, text bytes.Buffer
	require.NoError(t, report.WriteTable(&table))
	require.Contains(t, table.String(), "median")
	require.Contains(t, table.String(), "statements in the database were not counted: --database-url is not set")
	require.Contains(t, table.String(), "the queue was kept: "+o.Runs[0].Queue)
	require.NoError(t, report.WriteJSON(&text))
	var back Report
	require.NoError(t, json.Unmarshal(text.Bytes(), &back))
	require.True(t, back.Verified)
	require.InDelta(t, o.Median.Rate, back.Outcomes[0].Median.Rate, 0)
}

func TestAnUnreachableServerIsAnError(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), brief("http://127.0.0.1:1", "push"))
	require.ErrorContains(t, err, "does --server lead to a server?")
	require.Empty(t, report.Outcomes)
}

func TestInvalidSettingsNameTheFlag(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(s *Settings){
		"give it as http://host:port":       func(s *Settings) { s.URL = "localhost:6632" },
		"--batch is 20000":                  func(s *Settings) { s.Batch = 20_000 },
		"--payload is -1":                   func(s *Settings) { s.Payload = -1 },
		"--duration is 0s":                  func(s *Settings) { s.Duration = 0 },
		"--repeat is 0":                     func(s *Settings) { s.Repeat = 0 },
		`there is no scenario "pusch"`:      func(s *Settings) { s.Scenarios = []string{"pusch"} },
		"no scenario is named":              func(s *Settings) { s.Scenarios = nil },
		"--rate has no meaning for pop":     func(s *Settings) { s.Scenarios, s.Rate = []string{"pop"}, 5 },
		"end-to-end needs at least 9":       func(s *Settings) { s.Scenarios, s.Producers, s.Connections = []string{"end-to-end"}, 8, 8 },
		"--producers is -1: give 0 or more": func(s *Settings) { s.Producers = -1 },
		"fan-out needs at least 4":          func(s *Settings) { s.Scenarios, s.Groups, s.Connections = []string{"fan-out"}, 3, 3 },
		"--baseline needs a database":       func(s *Settings) { s.Baseline = true },
		"--pop-partitions is 0":             func(s *Settings) { s.PopPartitions = 0 },
		"--connections is -2: give 0 or mo": func(s *Settings) { s.Connections = -2 },
	} {
		s := Defaults()
		require.NoError(t, s.Validate())
		change(&s)
		require.ErrorContains(t, s.Validate(), want)
	}
}
