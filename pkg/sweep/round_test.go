package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRoundsAreShort(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2, nextRound(1, time.Millisecond))
	require.Equal(t, round, nextRound(round, time.Millisecond))
	require.Equal(t, 8, nextRound(8, 15*time.Millisecond))
	require.Equal(t, 4, nextRound(8, time.Second))
	require.Equal(t, 1, nextRound(1, time.Second))
}
