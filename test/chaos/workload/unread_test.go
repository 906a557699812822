package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A lost answer of an autoAck pop would lose messages.
func TestNoUnreadPopHasAutoAck(t *testing.T) {
	t.Parallel()
	require.Len(t, unreadGroups, len(groups)-1)
	require.NotContains(t, unreadGroups, AutoAckGroup)
}
