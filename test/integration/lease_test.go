package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// requireEnd requires that an extended lease ends after left.
func requireEnd(t *testing.T, e extension, left time.Duration) {
	t.Helper()
	require.NotNil(t, e.NewExpiresAt)
	end, err := time.Parse(time.RFC3339, *e.NewExpiresAt)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(left), end, time.Minute)
}

func TestExtend(t *testing.T) {
	t.Parallel()
	s := start(t)
	t.Run("keeps others out", func(t *testing.T) {
		t.Parallel()
		g := given(t, s, 1, 1, map[string]any{"leaseTime": 300})
		g.extend(g.first.LeaseID, `{"seconds":7200}`).ok(http.StatusOK)
		g.elapse(g.queue, time.Hour) // the original end of the lease has passed
		g.requireEmpty()
		require.True(t, g.say(g.first, "completed")[0].released())
	})
	t.Run("never shortens", func(t *testing.T) {
		t.Parallel()
		g := given(t, s, 1, 1, map[string]any{"leaseTime": 3600})
		short := g.extend(g.first.LeaseID, `{"seconds":1}`).ok(http.StatusOK)
		long := g.extend(g.first.LeaseID, `{"seconds":7200}`).ok(http.StatusOK)
		requireEnd(t, short, 3600*time.Second)
		requireEnd(t, long, 7200*time.Second)
		require.Equal(t, long.NewExpiresAt, g.extend(g.first.LeaseID, `{}`).ok(http.StatusOK).NewExpiresAt)
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		c := s.client(t)
		for _, lease := range []string{uuid.NewString(), "nonsense", "a/b"} {
			answer := c.extend(lease, `{"seconds":null}`)
			reason := "Lease not found"
			require.Equal(t, extension{LeaseID: lease, Error: &reason}, answer.ok(http.StatusNotFound))
			require.Equal(t, extensionKeys, keys(t, answer.Raw))
		}
	})
	t.Run("released", func(t *testing.T) {
		t.Parallel()
		g := given(t, s, 1, 1, nil)
		g.say(g.first, "completed")
		require.Equal(t, http.StatusNotFound, g.extend(g.first.LeaseID, `{}`).Status)
	})
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		g := given(t, s, 1, 1, nil)
		g.expire()
		answer := g.extend(g.first.LeaseID, `{"seconds":300}`)
		reason := "Lease already expired"
		require.Equal(t, extension{LeaseID: g.first.LeaseID, Error: &reason}, answer.ok(http.StatusConflict))
		require.Equal(t, extensionKeys, keys(t, answer.Raw))
		require.Equal(t, []string{"m1"}, g.take(1).ids(), "the lease stays expired")
	})
}
