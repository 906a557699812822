package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dashboard"
)

// Each selected dead letter is one request. A refused one does not stop the others.
func TestChosenDeadLettersAreChangedOneByOne(t *testing.T) {
	t.Parallel()
	var asked []string
	s := start(t, dashboard.DefaultConfig(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		if r.URL.Path == "/api/v1/messages/p/gone/dlq" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"Message not found"}`))
			return
		}
		_, _ = w.Write([]byte(`{"success":true}`))
	}))
	letter := func(id string) string {
		return url.Values{"partition": {"p"}, "transaction": {id}, "group": {"g&h"}}.Encode()
	}
	send := func(action string, ids ...string) *httptest.ResponseRecorder {
		asked = nil
		form := url.Values{"action": {action}}
		for _, id := range ids {
			form.Add("letter", letter(id))
		}
		return s.send(t, http.MethodPost, "/ui/do", form.Encode())
	}
	send("redrive-chosen", "a/b", "c")
	require.Equal(t, []string{"POST /api/v1/messages/p/a%2Fb/retry?", "POST /api/v1/messages/p/c/retry?"}, asked)
	send("discard-chosen", "gone", "c")
	require.Equal(t, []string{"DELETE /api/v1/messages/p/gone/dlq?consumerGroup=g%26h", "DELETE /api/v1/messages/p/c/dlq?consumerGroup=g%26h"}, asked)
	send("discard-chosen")
	require.Empty(t, asked)
}
