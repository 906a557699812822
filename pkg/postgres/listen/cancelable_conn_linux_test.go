package listen

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSocketsHaveUserTimeoutAndKeepalive(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	server, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	conn, err := dial(t.Context(), t.Context(), "tcp4", server.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	raw, err := tcp.SyscallConn()
	require.NoError(t, err)
	option := func(level, name int) (value int) {
		var failed error
		require.NoError(t, raw.Control(func(fd uintptr) { value, failed = unix.GetsockoptInt(int(fd), level, name) }))
		require.NoError(t, failed)
		return value
	}
	require.Equal(t, 15_000, option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT))
	require.Equal(t, 1, option(unix.SOL_SOCKET, unix.SO_KEEPALIVE))
	require.Equal(t, 5, option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE))
}
