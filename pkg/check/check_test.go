package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/check"
)

func TestOnlyInvalidValuesAreErrors(t *testing.T) {
	t.Parallel()
	require.NoError(t, check.That(true, "bad"))
	require.NoError(t, check.AtLeast("a.b", 1, 1))
	require.NoError(t, check.Positive("a.b", 1))
	require.EqualError(t, check.That(false, "a.b is %q", "x"), `a.b is "x"`)
	require.EqualError(t, check.AtLeast("a.b", 0, 1), "a.b is 0: it must be at least 1")
	require.EqualError(t, check.Positive("a.b", -time.Second), "a.b is -1s: it must be positive")
}
