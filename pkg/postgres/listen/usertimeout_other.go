//go:build !linux

package listen

import "syscall"

// setUserTimeout does nothing: this system has no TCP_USER_TIMEOUT. Keepalive and the
// canary still detect a dead connection.
func setUserTimeout(string, string, syscall.RawConn) error { return nil }
