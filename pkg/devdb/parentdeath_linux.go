package devdb

import "syscall"

// signalOnParentDeath makes the kernel ask the child for a fast shutdown when
// the thread that started it ends; see process.own for why that is our end.
func signalOnParentDeath(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
