package main

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/test/testcert"
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

// `belfry health` asks /readyz and reports why the server is not ready. With --live it asks /livez.
func TestHealthReportsWhyTheServerIsNotReady(t *testing.T) {
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

func TestHealthVerifiesTheCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	trusted := testcert.Write(t, t.TempDir(), "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	code, _, stderr := belfry(t, "health", "--server", server.URL, "--ca-file", trusted)
	require.Zero(t, code, stderr)
	code, _, stderr = belfry(t, "health", "--server", server.URL)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--ca-file")
	code, _, stderr = belfry(t, "health", "--server", strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "--ca-file", trusted)
	require.Equal(t, 1, code, "the certificate does not contain the name localhost")
	require.Contains(t, stderr, "a host name of the certificate")
}

func TestHealthAsksTheInternalAddress(t *testing.T) {
	t.Parallel()
	cfg := httpapi.Config{Addr: ":1"}
	require.Equal(t, "http://localhost:1", healthURL(cfg))
	cfg.TLSCertFile = "/c"
	require.Equal(t, "https://localhost:1", healthURL(cfg))
	cfg.InternalAddr = "127.0.0.1:2"
	require.Equal(t, "http://127.0.0.1:2", healthURL(cfg))
}

// `belfry health` does not verify the certificate of the server of its own configuration. The configuration contains
// neither the host name in the certificate nor the CA.
func TestHealthAsksItsOwnServerWithTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	for name, value := range map[string]string{"ADDR": server.Listener.Addr().String(), "TLS_CERT_FILE": "/tls.crt", "TLS_KEY_FILE": "/tls.key"} {
		t.Setenv("BELFRY_HTTP_"+name, value)
	}
	code, _, stderr := belfry(t, "health", "--live")
	require.Zero(t, code, stderr)
	code, _, stderr = belfry(t, "health", "--server", server.URL)
	require.Equal(t, 1, code, "the certificate of a named server is verified")
	require.Contains(t, stderr, "--ca-file")
}

// health and bench send their requests to the server of the context, with the token and the CA of the context. They
// send the token to no other server.
func TestHealthAndBenchUseContexts(t *testing.T) {
	var tokens atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens.Store(r.Header.Get("Authorization"))
		if r.URL.Path != "/readyz" {
			http.Error(w, `{"error":"no queue here"}`, http.StatusTeapot)
		}
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	trusted := testcert.Write(t, t.TempDir(), "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	t.Setenv("BELFRY_CONTEXTS", filepath.Join(t.TempDir(), "contexts.yaml"))
	code, _, stderr := belfry(t, "context", "add", "here", "--server", server.URL, "--token", "of-here", "--ca-file", trusted)
	require.Zero(t, code, stderr)
	for _, line := range []string{"health --context here", "bench push --context here", "bench push"} { // here is the current context
		tokens.Store("")
		_, _, stderr := belfry(t, strings.Fields(line)...)
		require.Equal(t, "Bearer of-here", tokens.Load(), "%s: %s", line, stderr)
	}
	code, _, stderr = belfry(t, "health", "--context", "here")
	require.Zero(t, code, stderr)
	code, _, stderr = belfry(t, "health", "--server", server.URL+",https://127.0.0.1:1", "--ca-file", trusted)
	require.Equal(t, 1, code, "each server must be ready")
	require.Contains(t, stderr, "asking https://127.0.0.1:1/readyz")
	code, _, stderr = belfry(t, "health", "--http-addr", "127.0.0.1:1")
	require.Equal(t, 1, code, "health asks the address of --http-addr, not the current context")
	require.Contains(t, stderr, "asking http://127.0.0.1:1/readyz")
	for _, command := range []string{"health", "bench push"} {
		code, _, stderr = belfry(t, strings.Fields(command+" --context nosuch")...)
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, `there is no context "nosuch"`)
	}
}
