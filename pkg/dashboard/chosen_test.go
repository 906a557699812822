package dashboard_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dashboard"
)

// Each selected dead letter is one request.
func TestChosenDeadLettersAreChangedOneByOne(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), nil)
	letter := func(id string) string {
		return url.Values{"partition": {"p"}, "transaction": {id}, "group": {"g&h"}}.Encode()
	}
	send := func(action string, ids ...string) int64 {
		before := s.api.calls.Load()
		form := url.Values{"action": {action}}
		for _, id := range ids {
			form.Add("letter", letter(id))
		}
		w := s.send(t, http.MethodPost, "/ui/do", form.Encode())
		require.Equal(t, http.StatusSeeOther, w.Code)
		return s.api.calls.Load() - before
	}
	require.EqualValues(t, 2, send("redrive-chosen", "c", "a/b"))
	require.Equal(t, []any{http.MethodPost, "/api/v1/messages/p/a%2Fb/retry"}, []any{s.api.method.Load(), s.api.path.Load()})
	require.EqualValues(t, 3, send("discard-chosen", "c", "d", "e"))
	require.Equal(t, []any{http.MethodDelete, "/api/v1/messages/p/e/dlq"}, []any{s.api.method.Load(), s.api.path.Load()})
	require.Zero(t, send("discard-chosen"))
	require.Zero(t, send("discard-chosen", make([]string, 201)...))
}
