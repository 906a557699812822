package setting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
)

func TestOnlyInvalidValuesAreErrors(t *testing.T) {
	t.Parallel()
	require.NoError(t, setting.Check(true, "bad"))
	require.NoError(t, setting.AtLeast("a.b", 1, 1))
	require.NoError(t, setting.Positive("a.b", 1))
	require.EqualError(t, setting.Check(false, "a.b is %q", "x"), `a.b is "x"`)
	require.EqualError(t, setting.AtLeast("a.b", 0, 1), "a.b is 0: it must be at least 1")
	require.EqualError(t, setting.Positive("a.b", -time.Second), "a.b is -1s: it must be positive")
}
