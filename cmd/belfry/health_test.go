package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
)

func TestReachable(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"[::]:6632": "localhost:6632", "0.0.0.0:1": "localhost:1", "127.0.0.1:2": "127.0.0.1:2", "[::1]:3": "[::1]:3", "10.0.0.5:4": "10.0.0.5:4",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		require.NoError(t, err)
		require.Equal(t, want, reachable(tcp.String()))
	}
}

// belfry health asks /readyz and says why the server is not ready. With --live it asks /livez.
func TestHealthAsksAProbe(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"status":"not_ready","reason":"migrating"}`:        "/readyz answered 503 Service Unavailable: migrating",
		`{"error":"the server has too many connections"}`:    "/readyz answered 503 Service Unavailable: the server has too many connections",
		`<html>some other server</html>`:                     "/readyz answered 503 Service Unavailable",
		`{"status":"not_ready","reason":["no", "text", "."]`: "/readyz answered 503 Service Unavailable",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/livez" {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, answer)
			}
		}))
		defer server.Close()
		health := func(args ...string) error {
			cmd := newRootCmd()
			cmd.SetArgs(append([]string{"health", "--" + config.FlagName("http.addr"), server.Listener.Addr().String()}, args...))
			return cmd.ExecuteContext(t.Context())
		}
		require.EqualError(t, health(), server.URL+want)
		require.NoError(t, health("--live"))
	}
}
