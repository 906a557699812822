//go:build !linux

package listen

import "syscall"

// setUserTimeout does nothing where TCP_USER_TIMEOUT is unknown; keepalive and the
// canary remain.
func setUserTimeout(string, string, syscall.RawConn) error { return nil }
