package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheServiceManagerIsToldTheState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = manager.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	require.NoError(t, notifyManager(stateReady))
	require.NoError(t, manager.SetReadDeadline(time.Now().Add(10*time.Second)))
	message := make([]byte, 100)
	n, err := manager.Read(message)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(message[:n]))
}

func TestWithoutAServiceManagerNobodyIsTold(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, notifyManager(stateReady))
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "missing"))
	require.Error(t, notifyManager(stateReady))
}
