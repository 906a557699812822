package devdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one run of the postmaster.
type process struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{} // closed when the postmaster was waited for
	err  error         // how it ended; written before done closes
}

// spawn starts cmd and the goroutine that waits for it.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// own starts and waits on one thread that it keeps to itself. The kernel tells a
// child that its parent died when the thread that made it ends, and any other
// thread may end while we live; see signalOnParentDeath.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signalOnParentDeath(p.cmd.SysProcAttr)
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = p.cmd.Process.Pid
	started <- nil
	p.err = p.cmd.Wait()
	close(p.done)
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks for a fast shutdown: sessions are ended, data is written out. When
// ctx ends first it asks for an immediate one, which the next start recovers
// from, and when that hangs too it kills. An error means the shutdown was not a
// fast one; the postmaster is gone in every case.
func (p *process) stop(ctx context.Context) error {
	if p.exited() {
		return nil
	}
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.signal(syscall.SIGQUIT)
	patience := time.NewTimer(immediateTimeout)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		p.signal(syscall.SIGKILL)
		<-p.done
	}
	return fmt.Errorf("stopping Postgres in order: %w; it was stopped at once and will recover at the next start", context.Cause(ctx))
}

// signal ignores the one error there is: the process has just exited, which
// closes done.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the postmaster and its children as a power cut would. The postmaster
// is frozen first, so that it makes no child we do not see.
func (p *process) kill() error {
	if p.exited() {
		return nil
	}
	p.signal(syscall.SIGSTOP)
	children, err := childrenOf(p.pid)
	p.signal(syscall.SIGKILL)
	for _, child := range children {
		if killErr := syscall.Kill(child, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("killing process %d of Postgres: %w", child, killErr))
		}
	}
	<-p.done
	return err
}

// killGroup ends a child started with Setpgid and its own children.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
