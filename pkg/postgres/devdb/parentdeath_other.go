//go:build !linux

package devdb

import "syscall"

// signalOnParentDeath does nothing, because the system has no such signal. A Postgres whose
// owner was killed runs until the next Start stops it.
func signalOnParentDeath(*syscall.SysProcAttr) {}
