package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// silent returns the address of a server that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() }) // also closes connections that the test did not accept
	return ln.Addr().String()
}

// If the database does not answer, the start fails within database.start_timeout. The same limit holds for
// database.url and database.listen_url.
func TestAStartEndsWithinStartTimeout(t *testing.T) {
	t.Parallel()
	const timeout, margin = time.Second, 2 * time.Second
	for name, keys := range map[string]string{
		"no answer":                             "url: postgres://u@" + silent(t) + "/d",
		"no answer, without TLS":                "url: postgres://u@" + silent(t) + "/d?sslmode=disable",
		"no server":                             "url: postgres://u@127.0.0.1:1/d",
		"no answer at listen_url":               "url: " + pgtest.Database(t) + "\n  listen_url: postgres://u@" + silent(t) + "/d",
		"no server at listen_url":               "url: " + pgtest.Database(t) + "\n  listen_url: postgres://u@127.0.0.1:1/d",
		"no answer, connect_timeout in the URL": "url: postgres://u@" + silent(t) + "/d?connect_timeout=30",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := configFile(t, "database:\n  start_timeout: "+timeout.String()+"\n  "+keys+"\nhttp: {addr: '127.0.0.1:0'}\n")
			began := time.Now()
			code, _, stderr := belfry(t, "serve", "--config", file)
			took := time.Since(began)
			require.Equal(t, 1, code, stderr)
			require.Less(t, took, timeout+margin, stderr)
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			require.True(t, strings.HasPrefix(lines[len(lines)-1], "belfry: "), stderr)
		})
	}
}
