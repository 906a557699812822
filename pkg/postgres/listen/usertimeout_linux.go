package listen

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel close a TCP connection whose other end acknowledges
// nothing for tcpUserTimeout.
func setUserTimeout(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tcpUserTimeout.Milliseconds()))
	}); err != nil {
		return fmt.Errorf("setting the TCP user timeout: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("setting the TCP user timeout: %w", failed)
	}
	return nil
}
