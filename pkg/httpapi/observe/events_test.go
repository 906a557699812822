package observe_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// database is a live.Reader that needs no database.
type database struct{}

func (database) Groups(context.Context, time.Duration, int) (live.Groups, error) {
	return live.Groups{Now: time.Now()}, nil
}

func (database) Audit(context.Context, time.Time, int64) ([]audit.Row, error) {
	row := audit.Row{Key: audit.Key{At: time.Now(), ID: apitest.IDOne}, Action: "queue.configure", Result: "ok"}
	row.Queue = "a.1"
	return []audit.Row{row}, nil
}

// answer is a response that a test reads while the handler writes it.
type answer struct {
	mu sync.Mutex
	httptest.ResponseRecorder
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ResponseRecorder.Write(p)
}

func (a *answer) Flush() {}

func (a *answer) take() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	text := a.Body.String()
	a.Body.Reset()
	return text
}

// tokens accepts one token. The test revokes it by closing revoked.
type tokens struct {
	principal identity.Principal
	revoked   chan struct{}
}

func (a tokens) Verify(context.Context, string) (*identity.Principal, error) {
	a.principal.Check = func() error {
		select {
		case <-a.revoked:
			return &queue.Error{Code: queue.CodeUnauthenticated}
		default:
			if ends := a.principal.EndsAt; !ends.IsZero() && !time.Now().Before(ends) {
				return &queue.Error{Code: queue.CodeUnauthenticated}
			}
			return nil
		}
	}
	return &a.principal, nil
}

func (tokens) Skips(string) bool { return false }

func (a tokens) NextRevocation() <-chan struct{} { return a.revoked }

// open starts a hub and a stream of a principal, in a bubble of synctest. The last result is closed at the end of the stream.
func open(t *testing.T, target string, who tokens) (*answer, *live.Hub, *httpapi.Server, chan struct{}) {
	t.Helper()
	hub := live.New(live.Deps{
		Instance: apitest.IDTwo, Reader: database{}, Counts: history.NewRecorder(1), Send: func(string) {}, Listener: func() string { return "proven" },
		Waiting: func() int { return 0 }, WaitingByQueue: func() map[string]int { return nil }, Log: zap.NewNop(),
	}, live.DefaultConfig())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running := make(chan error, 1)
	go func() { running <- hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-running)
	})
	server, _ := apitest.Server(&apitest.Fakes{Streaming: true}, func(_ *httpapi.Config, deps *httpapi.Deps) {
		deps.Events = hub
		if who.revoked != nil {
			deps.Auth = who
		}
	})
	a, ended := &answer{ResponseRecorder: *httptest.NewRecorder()}, make(chan struct{})
	request := apitest.Request("GET", target, "").WithContext(ctx)
	go func() {
		defer close(ended)
		server.Handler().ServeHTTP(a, request)
	}()
	synctest.Wait()
	return a, hub, server, ended
}

func TestEventsAreServerSentEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, hub, _, ended := open(t, "/api/v1/events", tokens{})
		text := a.take()
		require.Equal(t, "text/event-stream", a.Header().Get("Content-Type"))
		require.Equal(t, "no-store", a.Header().Get("Cache-Control"))
		require.True(t, strings.HasPrefix(text, "retry: 2000\n\nid: "), text)
		require.Contains(t, text, "event: snapshot\n")
		hub.OnGroupCreated("q\n", "", "g")
		lines := strings.Split(a.take(), "\n")
		require.Equal(t, "event: group.created", lines[1])
		data, _ := strings.CutPrefix(lines[2], "data: ")
		var e map[string]string
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		require.Equal(t, map[string]string{"type": "group.created", "at": e["at"], "instance": apitest.IDTwo.String(), "queue": "q\n", "consumerGroup": "g"}, e)
		require.Equal(t, []string{"", ""}, lines[3:])
		<-time.After(time.Minute)
		require.Equal(t, strings.Repeat(":\n\n", 4), a.take())
		hub.Stop()
		<-ended
		require.Contains(t, a.take(), `"data":{"reason":"shutdown"}}`)
	})
}

// A stream ends when its token expires, when its token is revoked, and when its timeout passes.
func TestAStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target    string
		principal identity.Principal
		end       func(hub *live.Hub, revoked chan struct{})
		reason    string
	}{
		"the token expires": {"/api/v1/events", identity.Principal{Role: identity.Admin}, func(*live.Hub, chan struct{}) { <-time.After(time.Minute) }, "unauthorized"},
		"the token is revoked and an event comes": {"/api/v1/events", identity.Principal{Role: identity.Admin}, func(hub *live.Hub, revoked chan struct{}) {
			close(revoked)
			hub.OnCreated("secret", "", events.Here)
		}, "unauthorized"},
		"the token is revoked": {"/api/v1/events", identity.Principal{Role: identity.Admin}, func(_ *live.Hub, revoked chan struct{}) { close(revoked) }, "unauthorized"},
		"the timeout passes":   {"/api/v1/events?timeout=20000", identity.Principal{Role: identity.Admin}, func(*live.Hub, chan struct{}) { <-time.After(20 * time.Second) }, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				revoked := make(chan struct{})
				c.principal.EndsAt = time.Now().Add(time.Minute)
				began := time.Now()
				a, hub, _, ended := open(t, c.target, tokens{c.principal, revoked})
				a.take()
				c.end(hub, revoked)
				<-ended
				require.Equal(t, map[string]time.Duration{"the token expires": time.Minute, "the timeout passes": 20 * time.Second}[name], time.Since(began))
				text := a.take()
				require.Contains(t, text, `"reason":"`+c.reason+`"`)
				require.NotContains(t, text, "secret")
			})
		})
	}
}

// Only a watcher that may use GET /api/v1/audit gets events of the audit.
func TestOnlyAdminsSeeEventsOfTheAudit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		who  tokens
		sees bool
	}{
		"without tokens":           {tokens{}, true},
		"an admin":                 {tokens{identity.Principal{Role: identity.Admin}, make(chan struct{})}, true},
		"read-write":               {tokens{identity.Principal{Role: identity.ReadWrite}, make(chan struct{})}, false},
		"an admin of other queues": {tokens{identity.Principal{Role: identity.Admin, Grants: &identity.Grants{Read: []string{"a.*"}}}, make(chan struct{})}, false},
		"an admin of the queue":    {tokens{identity.Principal{Role: identity.Admin, Grants: &identity.Grants{Admin: []string{"a.*"}}}, make(chan struct{})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if c.who.revoked != nil {
					c.who.revoked = make(chan struct{}) // the channel must belong to this bubble
				}
				a, hub, server, ended := open(t, "/api/v1/events", c.who)
				hub.Audited()
				<-time.After(2 * time.Second)
				text := a.take()
				require.Contains(t, text, "event: queue.changed\n")
				require.Equal(t, c.sees, strings.Contains(text, "event: audit\n"), text)
				server.EndStreams()
				<-ended
				require.Equal(t, http.StatusOK, a.Code)
			})
		})
	}
}
