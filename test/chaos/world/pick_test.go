package world

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

func namesOf(faults []Fault) []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.Name)
	}
	return names
}

func TestFaultsArePickedByName(t *testing.T) {
	t.Parallel()
	names := namesOf(Faults())
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names), "names are unique")
	picked, leftOut, err := Pick(t.Context(), nil, "")
	require.NoError(t, err)
	require.Len(t, picked, len(names)-len(leftOut))
	picked, _, err = Pick(t.Context(), []string{"mix", "kill-server"}, "")
	require.NoError(t, err)
	require.Equal(t, []string{"mix", "kill-server"}, namesOf(picked))
	require.True(t, wants(picked, stepClock), "a mix needs several faults, so with one named fault it has all faults")
	require.False(t, wants(picked, loses))
	picked, _, err = Pick(t.Context(), []string{"mix", "kill-server", "stop-server"}, "")
	require.NoError(t, err)
	require.False(t, wants(picked, stepClock))
	picked, _, err = Pick(t.Context(), []string{"mix"}, "session")
	require.NoError(t, err)
	require.False(t, wants(picked, failsOver), "a pooler connects to one Postgres")
	_, _, err = Pick(t.Context(), []string{failsOver}, "session")
	require.ErrorContains(t, err, "one Postgres")
	_, _, err = Pick(t.Context(), nil, "statement")
	require.ErrorContains(t, err, "session or transaction")
	_, _, err = Pick(t.Context(), []string{"kill-everything"}, "")
	require.ErrorContains(t, err, strings.Join(names, ", "))
}

// In this test, one fault is not possible on the machine.
func TestImpossibleFaultsAreReported(t *testing.T) {
	t.Parallel()
	hard := Fault{Name: "hard", obstacle: func(context.Context) error { return errors.New("only root may") }}
	easy, other := Fault{Name: "easy"}, Fault{Name: "other", obstacle: func(context.Context) error { return nil }}
	faults := []Fault{easy, hard, other, mix(nil)}
	for _, c := range []struct {
		names   string // separated by commas
		picked  []string
		leftOut string
	}{
		{"", []string{"easy", "other", "mix"}, "hard is left out: only root may"},
		{"hard?,easy", []string{"easy"}, "hard is left out: only root may"},
		{"other?,easy", []string{"other", "easy"}, ""},
		{"mix", []string{"mix"}, "hard is left out of the mix: only root may"},
		{"easy,other,mix", []string{"easy", "other", "mix"}, ""},
	} {
		var names []string
		if c.names != "" {
			names = strings.Split(c.names, ",")
		}
		picked, leftOut, err := pick(t.Context(), faults, names)
		require.NoError(t, err, c.names)
		require.Equal(t, c.picked, namesOf(picked), c.names)
		require.False(t, wants(picked, "hard"), c.names)
		require.Equal(t, c.leftOut, strings.Join(leftOut, "\n"), c.names)
	}
	_, _, err := pick(t.Context(), faults, []string{"easy", "hard"})
	require.ErrorContains(t, err, "hard is not possible on this machine: leave it out, or write hard? to use it only where it is possible: only root may")
	_, _, err = pick(t.Context(), faults, []string{"hard?"})
	require.ErrorContains(t, err, "no fault is left: hard is left out: only root may")
}

func TestExcusesNameExistingFaults(t *testing.T) {
	t.Parallel()
	names := namesOf(append(Faults(), Losing()...))
	for name := range excuses {
		require.Contains(t, names, name)
	}
	for name := range sqlAllowances {
		require.Contains(t, names, name)
	}
	require.Equal(t, longestPoll, config.Default().Dispatch.MaxPollInterval)
	require.Equal(t, peerTimeout+requestTimeout, addExcuses(peerTimeout, requestTimeout))
	require.Equal(t, always, addExcuses(always, peerTimeout))
	require.Equal(t, always, addExcuses(peerTimeout, always))
}

// The excuse of faults at the same time is the sum of their excuses.
func TestMixAddsTheExcusesOfItsFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		happens := func(context.Context, *World, *rand.Rand) (string, error) { return "it happened", nil }
		one, other := Fault{Name: "stop-server", run: happens}, Fault{Name: "end-listeners", run: happens}
		var w *World
		choose := rand.New(rand.NewPCG(1, 1))
		for _, c := range []struct {
			fault Fault
			want  Result
		}{
			{one, Result{What: "it happened", SQLAllowance: always}},
			{other, Result{What: "it happened", Excuse: longestPoll}},
			{mix([]Fault{one, other}), Result{"end-listeners: it happened; stop-server: it happened", longestPoll, always}},
		} {
			got, err := w.Inject(t.Context(), c.fault, choose)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		}
	})
}
