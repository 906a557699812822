package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
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
