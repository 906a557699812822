package world

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/test/chaos/principals"
)

func TestMain(m *testing.M) {
	if code, child := Child(); child {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestClocks uses one world for all subtests, because building the program of the servers takes time.
func TestClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clockFault())
	for _, test := range []struct {
		name string
		run  func(t *testing.T, w *World)
	}{
		{"clocks step", clocksStep},
		{"the fault leaves clocks stepped or resets them", faultsStepClocks},
		{"new connections after a loss and a step back work", setBackAfterALoss},
	} {
		require.True(t, t.Run(test.name, func(t *testing.T) { //nolint:paralleltest // the subtests share the world
			test.run(t, w)
		}))
	}
}

// clocksStep steps the clocks of servers forward and back. The HTTP answers of the servers show the steps, and
// everything must work after each step.
func clocksStep(t *testing.T, w *World) {
	s, other := w.servers[0], w.servers[1]
	shows(t, w, 0, 0)
	for _, offset := range []time.Duration{-90 * time.Minute, 2 * time.Hour, 3 * time.Second} {
		require.NoError(t, s.setClock(offset))
		shows(t, w, 0, offset)
		shows(t, w, 1, 0) // the clock of another server does not change
		require.NoError(t, w.Recover(t.Context()))
	}
	// A restarted process keeps the offset.
	require.NoError(t, s.setClock(-time.Hour))
	require.NoError(t, s.kill())
	require.NoError(t, s.start(t.Context()))
	shows(t, w, 0, -time.Hour)
	require.NoError(t, w.Recover(t.Context()))
	require.NoError(t, other.setClock(time.Hour))
	require.NoError(t, w.Recover(t.Context()))
}

// newWorld returns a world with two servers. The end of the test closes the world.
func newWorld(t *testing.T, faults ...Fault) *World {
	t.Helper()
	dir, err := os.MkdirTemp("", "belfry-world-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w, err := New(t.Context(), dir, 2, faults, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// shows requires that the Date header of a server has an offset. The precision of the header is 1 s.
func shows(t *testing.T, w *World, server int, offset time.Duration) {
	t.Helper()
	client := &http.Client{Transport: principals.Transport(principals.Operator, &http.Transport{DisableKeepAlives: true})}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URLs()[server]+"/health", nil)
	require.NoError(t, err)
	earliest := time.Now().Add(offset).Truncate(time.Second)
	response, err := client.Do(request)
	require.NoError(t, err)
	latest := time.Now().Add(offset)
	require.NoError(t, response.Body.Close())
	date, err := http.ParseTime(response.Header.Get("Date"))
	require.NoError(t, err)
	require.False(t, date.Before(earliest), "%s is before %s", date, earliest)
	require.False(t, date.After(latest), "%s is after %s", date, latest)
}

// This program is built without the overlay, so it must refuse to step its clock.
func TestOrdinaryProgramsRefuseToStepTheirClock(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, step("1h"), "not built by clock.Build")
	require.ErrorContains(t, step("an hour"), "duration")
	answers := &strings.Builder{}
	require.Error(t, serveClock(strings.NewReader("1h\n"), answers))
	require.Empty(t, answers.String())
	require.NoError(t, serveClock(strings.NewReader(""), answers))
}

// faultsStepClocks repeats the fault until one clock stays stepped and another clock is reset.
func faultsStepClocks(t *testing.T, w *World) {
	over, cancel := context.WithCancel(t.Context())
	cancel() // the fault does not pause
	var left, mended int
	for seed := uint64(0); left == 0 || mended == 0; seed++ {
		result, err := w.Inject(over, clockFault(), rand.New(rand.NewPCG(seed, 0)))
		require.NoError(t, err)
		what := result.What
		name, _, _ := strings.Cut(what, ",")
		i := map[string]int{w.servers[0].name: 0, w.servers[1].name: 1}[name]
		if strings.HasSuffix(what, " for good") {
			left++
			require.NotZero(t, w.servers[i].offset, what)
		} else {
			mended++
			require.Zero(t, w.servers[i].offset, what)
		}
		shows(t, w, i, w.servers[i].offset)
	}
}
