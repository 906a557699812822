package main

import "syscall"

// endWithParent makes the kernel stop the child when the thread that started it
// ends.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
