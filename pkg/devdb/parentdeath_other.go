//go:build !linux

package devdb

import "syscall"

// signalOnParentDeath does nothing: the system has no such signal, so a Postgres
// whose owner was killed runs on until the next Start takes over.
func signalOnParentDeath(*syscall.SysProcAttr) {}
