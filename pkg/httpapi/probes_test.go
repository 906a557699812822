package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/test/apitest"
)

// requireProbe checks the answer of a probe.
func requireProbe(t *testing.T, s *httpapi.Server, path string, status int, body string) {
	t.Helper()
	rec := apitest.Send(s, apitest.Request("GET", path, ""))
	require.Equal(t, status, rec.Code, path)
	require.JSONEq(t, body, rec.Body.String(), path)
	require.Equal(t, status, apitest.Send(s, apitest.Request("HEAD", path, "")).Code, path)
}

const (
	alive    = `{"status":"alive"}`
	ready    = `{"status":"ready"}`
	away     = `{"status":"not_ready","reason":"database_away"}`
	draining = `{"status":"not_ready","reason":"draining"}`
)

func TestStartingServerAnswersItsProbesOnly(t *testing.T) {
	s := httpapi.New(httpapi.DefaultConfig(), httpapi.StartDeps{
		Ping: func(context.Context) error { return errors.New("the database is away") }, Version: "1.2.3",
		Metrics: apitest.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop(),
	})
	for phase, text := range map[httpapi.Phase]string{
		httpapi.Starting:  "starting: the server waits for its database; send the request again",
		httpapi.Migrating: "starting: the server migrates the schema of its database; send the request again",
	} {
		s.SetPhase(phase)
		requireProbe(t, s, "/livez", 200, alive)
		requireProbe(t, s, "/readyz", 503, `{"status":"not_ready","reason":"`+string(phase)+`"}`)
		requireProbe(t, s, "/health", 503, `{"status":"starting","database":"disconnected","server":"belfry","version":"1.2.3","waiting":0,
			"listener":{"state":"starting","secondsSinceProof":0},`+instance(false, 0)+`}`)
		for _, head := range []string{"POST /api/v1/push", "GET " + popPath, "GET /metrics/prometheus", "DELETE /health", "GET /nothing"} {
			method, path, _ := strings.Cut(head, " ")
			rec := apitest.Send(s, apitest.Request(method, path, ""))
			require.Equal(t, text, apitest.RequireError(t, rec, http.StatusServiceUnavailable), head)
			require.Equal(t, "1", rec.Header().Get("Retry-After"), head)
		}
	}
	s.Drain()
	requireProbe(t, s, "/livez", 200, alive)
	requireProbe(t, s, "/readyz", 503, draining)
}

// While the server drains, /readyz answers 503, and the server still serves requests.
func TestADrainingServerIsNotReadyButServesRequests(t *testing.T) {
	s, _ := apitest.Server(&apitest.Fakes{})
	c := serve(t, s)
	require.Equal(t, response{200, ready, nil}, c.get("/readyz"))
	s.Drain()
	require.Equal(t, response{503, draining, nil}, c.get("/readyz"))
	require.Equal(t, response{200, alive, nil}, c.get("/livez"))
	require.Equal(t, 204, c.get(popPath).status)
}

// Two failed pings in a row, at least a second apart, make a server not ready. The first successful
// ping makes it ready again.
func TestReadinessIgnoresASingleFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		pings := 0
		s, _ := apitest.Server(&apitest.Fakes{Ping: func(context.Context) error {
			pings++
			return failure
		}})
		ask := func(after time.Duration, status int, body string) {
			t.Helper()
			time.Sleep(after)
			for range 10 {
				requireProbe(t, s, "/readyz", status, body)
			}
		}
		fail, second, minute := errors.New("no"), time.Second, time.Minute
		ask(0, 200, ready)
		require.Equal(t, 1, pings, "20 requests within a second cause one ping")
		failure = fail
		ask(second-1, 200, ready)
		require.Equal(t, 1, pings)
		ask(1, 200, ready)
		require.Equal(t, 2, pings)
		ask(second, 503, away)
		ask(second, 503, away)
		failure = nil
		ask(second, 200, ready)
		failure = fail
		ask(second, 200, ready)
		failure = nil
		ask(second, 200, ready)
		failure = fail
		ask(second, 200, ready) // a success between two failures resets the count
		require.Equal(t, 8, pings)
		time.Sleep(minute)
		require.Equal(t, 8, pings, "without a probe, no ping is sent")
		requireProbe(t, s, "/livez", 200, alive)
		require.Equal(t, 8, pings)
	})
}

// If a client disconnects, its ping goes on. A canceled ping would count as a failure of the database.
func TestPingsContinueWhenTheClientDisconnects(t *testing.T) {
	var ended atomic.Int32
	s, _ := apitest.Server(&apitest.Fakes{Ping: func(ctx context.Context) error {
		if ctx.Err() != nil {
			ended.Add(1)
		}
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		require.LessOrEqual(t, time.Until(deadline), 2*time.Second)
		return ctx.Err()
	}})
	left, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/readyz", "/health"} {
		apitest.Send(s, apitest.Request("GET", path, "").WithContext(left))
	}
	require.Zero(t, ended.Load())
}
