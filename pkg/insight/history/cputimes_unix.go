//go:build !windows

package history

import (
	"syscall"
	"time"
)

// CPUTimes returns the CPU time that this process has used.
func CPUTimes() (user, system time.Duration) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, 0
	}
	return time.Duration(used.Utime.Nano()), time.Duration(used.Stime.Nano())
}
