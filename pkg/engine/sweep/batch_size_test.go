package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBatchSizeAdaptsToTheDuration(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2, nextBatchSize(1, time.Millisecond))
	require.Equal(t, maxSteps, nextBatchSize(maxSteps, time.Millisecond))
	require.Equal(t, 8, nextBatchSize(8, 15*time.Millisecond))
	require.Equal(t, 4, nextBatchSize(8, time.Second))
	require.Equal(t, 1, nextBatchSize(1, time.Second))
}
