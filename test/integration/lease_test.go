package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireEnd requires that an extended lease ends after the time left, within a minute.
func requireEnd(t *testing.T, e extension, left time.Duration) {
	t.Helper()
	require.NotNil(t, e.NewExpiresAt)
	end, err := time.Parse(time.RFC3339, *e.NewExpiresAt)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(left), end, time.Minute)
}

// An extended lease must stay exclusive after its original end. pkg/httpapi/data tests the answers. test/model tests all
// other outcomes.
func TestAnExtendedLeaseKeepsOthersOut(t *testing.T) {
	t.Parallel()
	g := given(t, start(t), 1, 1, map[string]any{"leaseTime": 300})
	g.extend(g.first.LeaseID, `{"seconds":7200}`).ok(http.StatusOK)
	g.elapse(g.queue, time.Hour) // the original end of the lease has passed
	g.requireEmpty()
	require.True(t, g.say(g.first, "completed")[0].released())
}
