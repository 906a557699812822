package devdb

import "syscall"

// signalOnParentDeath makes the kernel send the child SIGINT (a fast shutdown) when the
// thread that started it ends. process.run keeps that thread until this process ends.
func signalOnParentDeath(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
