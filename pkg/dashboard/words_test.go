package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// refusal refuses every token but "good" for one reason.
type refusal struct{ err error }

func (r refusal) Verify(_ context.Context, token string) (*identity.Principal, error) {
	if token == "good" {
		return admin, nil
	}
	return nil, r.err
}

func (refusal) NextRevocation() <-chan struct{} { return nil }

// The sign-in page says why it appears: because of the end of the session or a revoked token. It says nothing at a first visit and after
// a sign-out.
func TestTheSignInPageSaysWhyItAppears(t *testing.T) {
	t.Parallel()
	marked := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "belfry_session", Value: "1"}) }
	for name, one := range map[string]struct {
		err   error
		edits []func(*http.Request)
		want  string
	}{
		"first visit":                   {},
		"the browser dropped the token": {edits: []func(*http.Request){marked}, want: "Your session has run out. Sign in again."},
		"the token is revoked": {
			&queue.Error{Code: queue.CodeUnauthenticated, Message: "Token has been revoked"}, []func(*http.Request){with("old"), marked},
			"Your token is not accepted any more: Token has been revoked. Sign in with another one.",
		},
		"the database is away": {errors.New("the grants cannot be read"), []func(*http.Request){with("old")}, "The grants cannot be read."},
	} {
		s := start(t, dashboard.DefaultConfig(), refusal{one.err})
		w := s.send(t, http.MethodGet, "/ui/queues", "", one.edits...)
		require.Equal(t, http.StatusSeeOther, w.Code, name)
		page := s.send(t, http.MethodGet, "/ui/"+w.Header().Get("Location"), "", cookiesOf(w)).Body.String()
		if one.want == "" {
			require.NotContains(t, page, `role="status"`, name)
		} else {
			require.Contains(t, page, "<bdi>"+one.want+"</bdi>", name)
		}
	}
	s := start(t, dashboard.DefaultConfig(), refusal{})
	w := s.send(t, http.MethodPost, "/ui/sign-in", "token=good")
	require.Contains(t, w.Header().Values("Set-Cookie"), "belfry_session=1; HttpOnly; SameSite=Strict")
	require.Contains(t, strings.Join(s.send(t, http.MethodPost, "/ui/sign-out", "", with("good"), marked).Header().Values("Set-Cookie"), "\n"), "belfry_session=; Max-Age=0")
}

// cookiesOf adds the cookies of an answer to a request.
func cookiesOf(w *httptest.ResponseRecorder) func(*http.Request) {
	return func(r *http.Request) {
		for _, cookie := range w.Result().Cookies() {
			if cookie.MaxAge >= 0 {
				r.AddCookie(cookie)
			}
		}
	}
}

// The page of an object that does not exist waits for a change. Only a page whose server cannot answer is read again without a change.
// The page for an unknown address has no stream.
func TestAPageOfNothingIsNotReadAgain(t *testing.T) {
	t.Parallel()
	for status, live := range map[int][2]bool{http.StatusNotFound: {true, false}, http.StatusForbidden: {}, http.StatusServiceUnavailable: {true, true}} {
		s := startOn(t, apiFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error": "no", "code": "x"}`))
		}))
		w := s.send(t, http.MethodGet, "/ui/queue?q=none", "")
		require.Equal(t, status, w.Code)
		require.Equal(t, [2]bool{strings.Contains(w.Body.String(), "data-live="), strings.Contains(w.Body.String(), "data-again")}, live, status)
		require.NotContains(t, s.send(t, http.MethodGet, "/ui/none", "").Body.String(), "data-live")
	}
}

// The audit says in words what was done.
func TestTheAuditSpeaksInWords(t *testing.T) {
	t.Parallel()
	entry := func(action, parameters, counts, result string) any {
		return map[string]any{"action": action, "parameters": json.RawMessage(parameters), "counts": json.RawMessage(counts), "result": result}
	}
	page := startOn(t, answers{"/api/v1/audit": map[string]any{"pagination": map[string]any{}, "entries": []any{
		entry("queue.configure", `{"options": {"leaseTime": 60, "retentionEnabled": true, "retryLimit": null}}`, `{"queues": 1}`, "ok"),
		entry("dead_letters.redrive", `{"error": "no \"paper\""}`, `{"deadLetters": 12500, "skipped": 0}`, "not_found"),
		entry("something.new_here", `null`, `{}`, "canceled"),
	}}}).send(t, http.MethodGet, "/ui/audit?action=queue.configure", "").Body.String()
	for _, text := range []string{
		"<bdi>Changed the options</bdi>", ">leaseTime 60, retentionEnabled on, retryLimit default</bdi>", "<bdi>error no &#34;paper&#34;</bdi>", "<bdi>1 queue</bdi>", "</span> done</span>",
		"<bdi>Redrove dead letters</bdi>", "<bdi>12\u202f500 dead letters</bdi>", "<bdi>not found</bdi>", "<bdi>something new here</bdi>",
		`<option value="queue.configure" selected>Changed the options</option>`,
	} {
		require.Contains(t, page, text)
	}
}
