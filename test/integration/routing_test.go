package integration_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

// Without http.cors_origins no page of another origin can read an answer.
func requireNoCORS(t *testing.T, got reply) {
	t.Helper()
	for name := range got.Header {
		require.NotContains(t, name, "Access-Control-")
	}
}

func TestRouting(t *testing.T) {
	t.Parallel()
	s := start(t)
	t.Run("no CORS", func(t *testing.T) {
		t.Parallel()
		noCORSHeaders(t, s.client(t))
	})
	for _, one := range []struct {
		method, target string
		status         int
		text           string
	}{
		{http.MethodGet, "/nope", http.StatusNotFound, "no such endpoint: GET /nope"},
		{http.MethodPost, "/api/v1/nope", http.StatusNotFound, "no such endpoint: POST /api/v1/nope"},
		{http.MethodGet, "/api/v1/push", http.StatusMethodNotAllowed, "GET is not allowed on /api/v1/push"},
		{http.MethodPut, "/api/v1/configure", http.StatusMethodNotAllowed, "PUT is not allowed on /api/v1/configure"},
		{http.MethodPost, "/api/v1/pop/queue/q", http.StatusMethodNotAllowed, "POST is not allowed on /api/v1/pop/queue/q"},
		{http.MethodDelete, "/health", http.StatusMethodNotAllowed, "DELETE is not allowed on /health"},
	} {
		t.Run(one.method+" "+one.target, func(t *testing.T) {
			t.Parallel()
			got := ask[any](s.client(t), call{Method: one.method, Target: one.target, Body: `{}`})
			require.Equal(t, one.status, got.Status)
			require.Equal(t, one.text, got.failure)
			require.Equal(t, []string{"error"}, keys(t, got.Raw))
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			requireNoCORS(t, got.reply)
		})
	}
}

func noCORSHeaders(t *testing.T, c client) {
	for _, target := range []string{"/", "/health", pushPath, "/api/v1/pop/queue/a%2Fb", "/api/v1/nope"} {
		got := ask[any](c, call{Method: http.MethodOptions, Target: target})
		require.Equal(t, http.StatusNoContent, got.Status, target)
		require.Empty(t, got.Raw, target)
		requireNoCORS(t, got.reply)
	}
	c.pushIDs("q", "", "a")
	for _, what := range []call{
		{Method: http.MethodGet, Target: "/health"}, popCall("q", ""), popCall("q", ""), pushCall(item{Queue: "q"}),
		post(pushPath, "{"), extendCall("x", "{}"), deleteCall("q"),
	} {
		requireNoCORS(t, ask[any](c, what).reply)
	}
}

func TestBodiesTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	s := start(t, func(cfg *config.Config) { cfg.HTTP.MaxBodyBytes = limit })
	c := s.client(t)
	padded := func(size int) string {
		head, tail := `{"items":[{"queue":"q","payload":"`, `"}]}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	pushPadded := func(size int) answer[[]pushed] {
		return ask[[]pushed](c, post(pushPath, padded(size)))
	}
	const text = "the body is larger than 65536 bytes: send fewer items a call, or raise http.max_body_bytes"
	pushPadded(limit).ok(http.StatusCreated)
	over := pushPadded(limit + 1)
	require.Equal(t, http.StatusRequestEntityTooLarge, over.Status, "%s", over.Raw)
	require.Equal(t, text, over.failure)
	for _, path := range []string{ackPath, batchPath, configurePath, extendPath} {
		require.Equal(t, http.StatusRequestEntityTooLarge, ask[any](c, post(path, padded(limit+1))).Status, path)
	}

	// Without a Content-Length, the size is known only while reading.
	chunked, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+pushPath,
		io.MultiReader(strings.NewReader(padded(limit)), strings.NewReader(" ")))
	require.NoError(t, err)
	require.Zero(t, chunked.ContentLength)
	response, err := s.http.Do(chunked)
	require.NoError(t, err)
	raw := &bytes.Buffer{}
	_, err = raw.ReadFrom(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	require.JSONEq(t, `{"error":"`+text+`"}`, raw.String())

	require.Len(t, c.popIDs("q", "batch=10"), 1, "only the accepted message is stored")
}
