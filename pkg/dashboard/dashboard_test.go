package dashboard_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/dashboard"
	"github.com/belfry-mq/belfry/pkg/dashboard/source"
)

// tokens verifies tokens: it accepts the tokens of the map.
type tokens map[string]*identity.Principal

func (all tokens) Verify(_ context.Context, token string) (*identity.Principal, error) {
	if p := all[token]; p != nil {
		return p, nil
	}
	return nil, errors.New("Token has expired")
}

func (tokens) NextRevocation() <-chan struct{} { return nil }

// api answers every request with an empty list, and keeps the token, method and path of the latest request.
type api struct {
	token, method, path atomic.Value
	calls               atomic.Int64
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.calls.Add(1)
	a.token.Store(r.Header.Get("Authorization"))
	a.method.Store(r.Method)
	a.path.Store(r.URL.EscapedPath())
	answer := `{"pagination": {}}`
	if r.URL.Path == "/api/v1/consumer-groups" {
		answer = `[]`
	}
	_, _ = w.Write([]byte(answer))
}

type setup struct {
	*dashboard.Dashboard
	api     *api
	changes *source.Changes
}

func start(t *testing.T, cfg dashboard.Config, auth dashboard.Authenticator) setup {
	t.Helper()
	s := setup{api: &api{}, changes: &source.Changes{}}
	var err error
	s.Dashboard, err = dashboard.New(cfg, dashboard.Deps{API: s.api, Auth: auth, Changes: s.changes, Version: "v1", Log: zaptest.NewLogger(t)})
	require.NoError(t, err)
	return s
}

func (s setup) send(t *testing.T, method, path, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func with(token string) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "belfry_token", Value: token}) }
}

var (
	admin  = &identity.Principal{Subject: "ann", Role: identity.Admin}
	reader = &identity.Principal{Subject: "bob", Role: identity.ReadOnly}
)

const pauseOrders = "action=pause-queue&queue=a%2Fb&back=queue%3Fq%3Da%252Fb"

// Without a valid token, the dashboard serves only the sign-in page and the assets, and does not call the API.
func TestWithoutATokenOnlySignInIsServed(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{"good": admin})
	for _, edit := range []func(*http.Request){func(*http.Request) {}, with("bad"), with("")} {
		for _, path := range []string{"/ui/", "/ui/queues?name=x", "/ui/queue?q=a", "/ui/system"} {
			w := s.send(t, http.MethodGet, path, "", edit)
			require.Equal(t, http.StatusSeeOther, w.Code, path)
			require.Regexp(t, "^sign-in", w.Header().Get("Location"), path)
		}
		require.Equal(t, http.StatusUnauthorized, s.send(t, http.MethodGet, "/ui/live", "", edit).Code)
		require.Equal(t, http.StatusSeeOther, s.send(t, http.MethodPost, "/ui/do", pauseOrders, edit).Code)
	}
	require.Zero(t, s.api.calls.Load())
	require.Equal(t, http.StatusOK, s.send(t, http.MethodGet, "/ui/sign-in", "").Code)
	notice := s.send(t, http.MethodGet, "/ui/", "", with("bad")).Result().Cookies()[0]
	w := s.send(t, http.MethodGet, "/ui/sign-in", "", func(r *http.Request) { r.AddCookie(notice) })
	require.Contains(t, w.Body.String(), "Token has expired", "the sign-in page shows why the token is not valid")
	require.Equal(t, http.StatusOK, s.send(t, http.MethodGet, "/ui/"+assetLink.FindStringSubmatch(w.Body.String())[1], "").Code)
	require.Equal(t, http.StatusOK, s.send(t, http.MethodGet, "/ui/", "", with("good")).Code)
	require.Equal(t, "Bearer good", s.api.token.Load())
}

// The token is in a cookie that scripts cannot read, and that browsers do not send from other sites. After signing in, the
// browser is redirected only to pages of the dashboard.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{"good": admin})
	for next, want := range map[string]string{
		"queues?name=x": "queues?name=x", "": "./", "https://evil.example/": "./", "//evil.example": "./", "/queues": "./", "javascript:1": "./", "../x": "./",
	} {
		w := s.send(t, http.MethodPost, "/ui/sign-in", url.Values{"token": {" good\n"}, "next": {next}}.Encode())
		require.Equal(t, want, w.Header().Get("Location"), next)
		cookie := w.Result().Cookies()[0]
		require.Equal(t, "good", cookie.Value)
		require.True(t, cookie.HttpOnly)
		require.False(t, cookie.Secure)
		require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
		require.Empty(t, cookie.Path, "without a path, the browser uses the folder of the page, also behind a proxy")
	}
	w := s.send(t, http.MethodPost, "/ui/sign-in", "token=good", func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") })
	require.True(t, w.Result().Cookies()[0].Secure)
	w = s.send(t, http.MethodPost, "/ui/sign-in", "token=bad")
	require.Regexp(t, "^sign-in", w.Header().Get("Location"))
	require.NotContains(t, w.Header().Get("Set-Cookie"), "belfry_token")
}

// An action sends its request to the API with the token of the session.
func TestAnActionCallsTheAPI(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{"good": admin})
	w := s.send(t, http.MethodPost, "/ui/do", pauseOrders, with("good"))
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "queue?q=a%2Fb", w.Header().Get("Location"))
	require.Equal(t, []any{"Bearer good", http.MethodPost, "/api/v1/resources/queues/a%2Fb/pause"}, []any{s.api.token.Load(), s.api.method.Load(), s.api.path.Load()})
}

// The dashboard refuses actions from pages of another site. With dashboard.read_only it refuses all actions.
func TestActionsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), nil)
	w := s.send(t, http.MethodPost, "/ui/do", pauseOrders, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), `"https://evil.example"`)
	require.Contains(t, w.Body.String(), "Host", "the text says which header a proxy must pass on")
	require.Equal(t, "-Nothing was changed: there is no such action.", notice(t, s.send(t, http.MethodPost, "/ui/do", "action=other")))
	s = start(t, dashboard.Config{Enabled: true, ReadOnly: true}, nil)
	w = s.send(t, http.MethodPost, "/ui/do", pauseOrders)
	require.Equal(t, "queue?q=a%2Fb", w.Header().Get("Location"))
	require.Equal(t, "-Nothing was changed: the dashboard is read-only: dashboard.read_only is true.", notice(t, w))
	require.Zero(t, s.api.calls.Load())
}

// A browser also sends the cookie of the session for a page of another origin, so the dashboard checks the origin. A token
// in the header Authorization does not disable this check.
func TestTheOriginIsCheckedDespiteATokenInAHeader(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{"good": admin})
	for _, target := range []string{"/ui/do", "/ui/redrive", "/ui/token", "/ui/sign-in", "/ui/sign-out"} {
		w := s.send(t, http.MethodPost, target, pauseOrders, with("good"), func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Authorization", "Bearer good")
		})
		require.Equal(t, http.StatusForbidden, w.Code, target)
	}
	require.Zero(t, s.api.calls.Load())
}

// An action that deletes an object needs the typed name of the object.
func TestDeletingNeedsTheName(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), nil)
	for _, action := range []string{"delete-queue", "delete-group", "purge"} {
		s.send(t, http.MethodPost, "/ui/do", "queue=a&group=g&confirm=b&action="+action)
		require.Zero(t, s.api.calls.Load(), action)
	}
	s.send(t, http.MethodPost, "/ui/do", "queue=a&group=g&confirm=a&action=delete-queue")
	require.Equal(t, http.MethodDelete, s.api.method.Load())
}

// Every page has the content security policy, and all its links are relative.
func TestEveryPageIsStrictAndRelative(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), tokens{"good": admin, "read": reader})
	for _, path := range []string{"/ui/", "/ui/queues", "/ui/groups", "/ui/queue?q=a", "/ui/options?q=a", "/ui/group?q=a&g=b", "/ui/dead", "/ui/dispatcher", "/ui/messages", "/ui/messages?t=a", "/ui/message?partition=a&t=b", "/ui/traces", "/ui/traces?name=a",
		"/ui/history", "/ui/system", "/ui/producers", "/ui/streams", "/ui/maintenance", "/ui/audit", "/ui/access", "/ui/schedules", "/ui/schedule?name=a", "/ui/schedule-edit", "/ui/schedule-edit?name=a", "/ui/nothing", "/ui/sign-in"} {
		for _, token := range []string{"good", "read"} {
			w := s.send(t, http.MethodGet, path, "", with(token))
			require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
			require.NotRegexp(t, `(href|src|action)="/`, w.Body.String(), path)
			require.NotRegexp(t, `<script>|<style| style=| on[a-z]+=`, w.Body.String(), path)
			if token == "read" {
				require.NotContains(t, w.Body.String(), `action="do"`, path)
			}
		}
	}
	require.Equal(t, "ui/", s.send(t, http.MethodGet, "/", "").Header().Get("Location"))
}

// While pages are open, the dashboard calls Watch once, however many pages there are.
func TestEventsAreWatchedWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	began, ended := make(chan func(), 10), make(chan struct{}, 10)
	d, err := dashboard.New(dashboard.DefaultConfig(), dashboard.Deps{
		API: &api{}, Changes: &source.Changes{}, Log: zaptest.NewLogger(t),
		Watch: func(ctx context.Context, changed func()) error {
			began <- changed
			<-ctx.Done()
			ended <- struct{}{}
			return nil
		},
	})
	require.NoError(t, err)
	server := httptest.NewServer(d)
	defer server.Close()
	first, second := open(t, server.URL, "?since="+sinceOf(t, d)), open(t, server.URL, "?since="+sinceOf(t, d))
	changed := <-began
	changed()
	first.untilChange()
	second.untilChange()
	require.Empty(t, began)
	first.leave()
	second.leave()
	<-ended
	d.Close()
	require.Empty(t, began)
}

// sinceOf loads a page and returns the id of the last change that the page includes.
func sinceOf(t *testing.T, d http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/", http.NoBody))
	found := regexp.MustCompile(`data-since="([^"]+)"`).FindStringSubmatch(w.Body.String())
	require.Len(t, found, 2)
	return found[1]
}

// stream is an open stream of changes.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
	leave func()
}

// open opens the stream of changes. The stream is closed when the test ends.
func open(t *testing.T, base, query string, edits ...func(*http.Request)) stream {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/ui/live"+query, http.NoBody)
	require.NoError(t, err)
	for _, edit := range edits {
		edit(request)
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	s := stream{t, bufio.NewScanner(answer.Body), leave}
	require.True(t, s.lines.Scan())
	require.Equal(t, "retry: 2000", s.lines.Text())
	require.True(t, s.lines.Scan())
	return s
}

// untilChange reads the next event, which must be a change, and returns its id.
func (s stream) untilChange() (id string) {
	s.t.Helper()
	require.True(s.t, s.lines.Scan())
	require.Equal(s.t, "event: change", s.lines.Text())
	require.True(s.t, s.lines.Scan())
	id, ok := strings.CutPrefix(s.lines.Text(), "id: ")
	require.True(s.t, ok)
	for range 2 { // the data and an empty line
		require.True(s.t, s.lines.Scan())
	}
	return id
}

// The stream sends an event after a change, without a read of the API. Close ends the stream.
func TestTheStreamOfChanges(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), nil)
	server := httptest.NewServer(s)
	defer server.Close()
	since := sinceOf(t, s)
	reads := s.api.calls.Load()
	opened := open(t, server.URL, "?since="+since)
	s.changes.Changed()
	require.NotEqual(t, since, opened.untilChange())
	require.Equal(t, reads, s.api.calls.Load())
	s.Close()
	for opened.lines.Scan() {
	}
	require.NoError(t, opened.lines.Err())
}

// A page misses no change between its load and the start of its stream, and none while the stream is interrupted. A page
// that includes all changes gets no event.
func TestAStreamStartsAfterTheChangesOfItsPage(t *testing.T) {
	t.Parallel()
	s := start(t, dashboard.DefaultConfig(), nil)
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.Close()
	old := sinceOf(t, s)
	s.changes.Changed()
	latest := open(t, server.URL, "?since="+old).untilChange()
	require.Equal(t, sinceOf(t, s), latest)
	after := func(id string) func(r *http.Request) {
		return func(r *http.Request) { r.Header.Set("Last-Event-ID", id) }
	}
	require.Equal(t, latest, open(t, server.URL, "?since="+old, after(old)).untilChange())
	require.Equal(t, latest, open(t, server.URL, "?since="+latest, after("other-7")).untilChange(), "the server was started again")
	idle := open(t, server.URL, "?since="+old, after(latest))
	s.changes.Changed()
	require.NotEqual(t, latest, idle.untilChange())
}
