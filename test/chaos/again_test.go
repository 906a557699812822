package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// broken returns the error of a run that broke the given rules.
func broken(rules ...string) error {
	e := &brokenError{}
	for _, rule := range rules {
		e.violations = append(e.violations, check.Violation{Rule: rule})
	}
	return e
}

func TestOnlyLateAcceptsOnlyTimeLimits(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("server-1 did not recover within 3s: %w: refused", world.ErrLate)
	for _, one := range []error{late, broken("stuck"), errors.Join(late, broken("stuck", "stuck")), fmt.Errorf("a run: %w", broken("stuck"))} {
		require.True(t, onlyLate(one), one)
	}
	for _, rule := range []string{"stored", "delivered", "leftover", "again", "order", "early", "lease", "atomic"} {
		require.False(t, onlyLate(broken("stuck", rule)), rule)
	}
	wrong := errors.New("consumer-2: POST /api/v1/ack: an internal error")
	for _, one := range []error{wrong, errors.Join(broken("stuck"), wrong), errors.Join(late, fmt.Errorf("a complaint: %w", wrong))} {
		require.False(t, onlyLate(one), one)
	}
}

func TestALateRunIsRepeated(t *testing.T) {
	list := filepath.Join(t.TempDir(), "unsteady")
	t.Setenv(unsteadyFile, list)
	var kept []bool // of each run
	after := func(verdicts ...error) error {
		kept = nil
		return runTwice(t.Context(), settings{seed: 5}, &bytes.Buffer{}, func(_ context.Context, s settings, _ io.Writer) error {
			require.Equal(t, uint64(5), s.seed)
			kept = append(kept, s.keep)
			return verdicts[len(kept)-1]
		})
	}
	require.NoError(t, after(nil))
	require.NoFileExists(t, list)

	require.ErrorContains(t, after(broken("again", "stuck")), "again: ")
	require.Equal(t, []bool{false}, kept, "a run that broke another rule is not repeated")
	require.ErrorContains(t, after(broken("stuck"), broken("stuck")), "the second run: stuck: ")
	require.ErrorContains(t, after(broken("stuck"), broken("lease")), "the second run: lease: ")
	require.NoFileExists(t, list)

	require.NoError(t, after(broken("stuck"), nil))
	require.Equal(t, []bool{false, true}, kept, "only the second run must keep its history; a failed run always keeps it")
	listed, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Equal(t, "chaos: seed 5: "+broken("stuck").Error()+"\n", string(listed))
}

func TestAGoodRunMayKeepItsHistory(t *testing.T) {
	t.Parallel()
	c := &chaos{settings: settings{keep: true}, out: &bytes.Buffer{}, dir: t.TempDir(), recorder: history.NewRecorder()}
	require.NoError(t, c.end(nil))
	require.FileExists(t, filepath.Join(c.dir, "history.jsonl"))
	c.keep = false
	require.NoError(t, c.end(nil))
	require.NoDirExists(t, c.dir)
}
