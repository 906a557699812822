package ack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// A message before the cursor stays done: a late failed ack does not dead-letter it, even if no retry
// is left. Only status dlq does.
func TestFailedAckOfACompletedMessageChangesNothing(t *testing.T) {
	t.Parallel()
	state := cursorState{committed: 5, retryLimit: 0}
	change, verdicts := decideAck(state, []ackEntry{{seq: 3, status: queue.AckFailed}})
	require.False(t, change.changed)
	require.Equal(t, []ackVerdict{{success: true}}, verdicts)

	_, verdicts = decideAck(state, []ackEntry{{seq: 3, status: queue.AckDead}})
	require.True(t, verdicts[0].park)
	_, verdicts = decideAck(state, []ackEntry{{seq: 6, status: queue.AckFailed}})
	require.True(t, verdicts[0].park, "a message after the cursor is dead-lettered")
}

// The message after a batch that was completed late was never delivered. Its first delivery is
// attempt 1.
func TestBatchCompletedAfterItsLeaseLeavesNoAttempt(t *testing.T) {
	t.Parallel()
	state := cursorState{committed: 2, attempts: 1, leaseID: "l", leaseEnd: 4, retryLimit: 3}
	change, _ := decideAck(state, []ackEntry{{seq: 4, status: queue.AckCompleted}})
	require.Zero(t, change.attempts)
	change, _ = decideAck(state, []ackEntry{{seq: 3, status: queue.AckCompleted}})
	require.EqualValues(t, 1, change.attempts, "the rest of the batch was delivered once")
}
