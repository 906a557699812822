//go:build !linux

package main

import "syscall"

// endWithParent does nothing: the system has no such signal.
func endWithParent(*syscall.SysProcAttr) {}
