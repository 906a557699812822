// Package apitest runs the HTTP API on fakes of the packages that the API calls. The tests of pkg/httpapi and of its
// packages use it.
//
// A test sets the answers of the fakes, sends requests and then reads the calls that the fakes recorded.
package apitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// These ids are easy to recognize.
var (
	IDOne   = queue.ID{0x01, 15: 0x01}
	IDTwo   = queue.ID{0x02, 15: 0x02}
	IDThree = queue.ID{0x03, 15: 0x03}
)

// SeekPlace is the answer of the fake seek of a partition: the time at which the last message before the new position was
// stored.
var SeekPlace = time.Date(2026, 5, 16, 8, 41, 27, 123e6, time.UTC)

// OnePush is the body of a push of one message.
const OnePush = `{"items":[{"queue":"orders","payload":1}]}`

// Server returns a server on the fakes, and its log. Each edit may change the
// configuration and the dependencies.
func Server(f *Fakes, edits ...func(cfg *httpapi.Config, deps *httpapi.Deps)) (*httpapi.Server, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	if f.Ping == nil {
		f.Ping = func(context.Context) error { return nil }
	}
	if f.Metrics == nil {
		f.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	cfg := httpapi.DefaultConfig()
	cfg.Addr, cfg.AllowedHosts = "127.0.0.1:0", []string{"example.com"} // httptest.NewRequest sends this host
	deps := httpapi.Deps{
		Pusher: verbsFake{f}, Verbs: verbsFake{f}, Popper: verbsFake{f}, Catalog: catalogFake{f}, GroupWriter: groupsFake{f}, GroupReader: groupsFake{f}, Progress: progressFake{},
		Resources: resourcesFake{&f.Resources}, Queues: listsFake{&f.Lists}, Totals: totalsFake{f}, Problems: listsFake{&f.Lists}, DeadLetters: deadLettersFake{&f.DeadLetters}, Jobs: jobsFake{}, Traces: tracesFake{&f.Traces},
		Audit: auditFake{&f.Audit}, Confirm: func(context.Context) error { return nil }, Owners: ownersFake{f}, Streams: streamsFake{f}, Switches: switchesFake{}, Spool: spoolFake{}, Doctor: doctorFake{},
		History: historyFake{}, Tags: listsFake{&f.Lists}, Recent: recentFake{f}, Partitions: f, Live: liveFake{}, Pool: func() (size, idle, active int64) { return 0, 0, 0 },
		Attachments: attachmentsFake{&f.Producers}, Rejections: rejectionsFake{&f.Producers},
		Events: noEvents(), Rights: rightsFake{&f.Rights}, Schedules: schedulesFake{&f.Schedules}, Limits: limitsFake{}, MessageStates: resourcesFake{&f.Resources}, Listener: func() httpapi.ListenerState { return f.Listener }, Inbox: f.inboxState, Flushes: func() []store.Flushes { return f.Flushes }, Defaults: queue.DefaultDefaults(),
	}
	for _, edit := range edits {
		edit(&cfg, &deps)
	}
	s := httpapi.New(cfg, httpapi.StartDeps{Ping: f.Ping, Metrics: f.Metrics, Version: "1.2.3", Log: zap.New(core)})
	s.Open(deps)
	if !f.Streaming {
		s.EndStreams()
	}
	return s, logs
}

// noEvents returns a hub that sends no events.
func noEvents() *live.Hub {
	return live.New(live.Deps{
		Counts: history.NewRecorder(1), Waiting: func() int { return 0 }, WaitingByQueue: func() map[string]int { return nil }, Listener: func() string { return "proven" }, Send: func(string) {},
	}, live.DefaultConfig())
}

// NewMetrics returns metrics with a new recorder.
func NewMetrics(reg *prometheus.Registry) *httpapi.Metrics {
	return httpapi.NewMetrics(reg, history.NewRecorder(10))
}

// Call sends one request to a new server on the fakes.
func Call(f *Fakes, method, target, body string) *httptest.ResponseRecorder {
	s, _ := Server(f)
	return Send(s, Request(method, target, body))
}

// Request returns a request. With an empty body the request has no body.
func Request(method, target, body string) *http.Request {
	var reader io.Reader = http.NoBody
	if body != "" {
		reader = strings.NewReader(body)
	}
	return httptest.NewRequest(method, target, reader)
}

// Send sends a request to a server.
func Send(s *httpapi.Server, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, r)
	return rec
}

// SendOK sends a request that must be answered with 200.
func SendOK(t *testing.T, s *httpapi.Server, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	rec := Send(s, r)
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	return rec
}

// RequireAnswer sends a request to a new server on the fakes, and checks status and body of its answer.
func RequireAnswer(t *testing.T, f *Fakes, r *http.Request, status int, want string) {
	t.Helper()
	s, _ := Server(f)
	rec := Send(s, r)
	require.Equal(t, status, rec.Code, rec.Body)
	require.JSONEq(t, want, rec.Body.String(), r.RequestURI)
}

// RequireError checks an error answer and returns its text.
func RequireError(t *testing.T, rec *httptest.ResponseRecorder, status int) string {
	t.Helper()
	require.Equal(t, status, rec.Code, rec.Body)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	var body map[string]string
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body), rec.Body)
	require.Len(t, body, 1)
	require.NotEmpty(t, body["error"])
	return body["error"]
}

// RequireInvalid checks that err becomes a 400.
func RequireInvalid(t testing.TB, err error) {
	t.Helper()
	var coded *queue.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, queue.CodeInvalid, coded.Code)
	require.NotEmpty(t, coded.Message)
}
