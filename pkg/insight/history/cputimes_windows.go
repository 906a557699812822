package history

import (
	"syscall"
	"time"
)

// CPUTimes returns the CPU time that this process has used.
func CPUTimes() (user, system time.Duration) {
	process, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, 0
	}
	var created, exited, inKernel, inUser syscall.Filetime
	if err := syscall.GetProcessTimes(process, &created, &exited, &inKernel, &inUser); err != nil {
		return 0, 0
	}
	return length(inUser), length(inKernel)
}

// length returns a duration that Windows counts in units of 100 ns.
func length(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32+int64(t.LowDateTime)) * 100
}
