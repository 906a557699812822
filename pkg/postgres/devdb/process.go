package devdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one run of the postmaster.
type process struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{} // closed when the postmaster has exited
	err  error         // the result of Wait; written before done is closed
}

// spawn starts cmd and the goroutine that waits for it.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the child and waits for it, locked to one thread. The kernel signals the child when the thread that started the
// child ends (see signalOnParentDeath). A thread that is not locked can end earlier than this process.
func (p *process) run(started chan<- error) {
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

// stop requests a fast shutdown, which ends the sessions and writes a checkpoint. If ctx ends first, stop requests an immediate
// shutdown, after which the next start recovers. If this takes longer than immediateTimeout, stop kills the postmaster. When stop
// returns, the postmaster has always exited. An error means that the shutdown was not fast.
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
	timer := time.NewTimer(immediateTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.signal(syscall.SIGKILL)
		<-p.done
	}
	return fmt.Errorf("stopping Postgres in time: %w; it was stopped immediately and recovers at the next start", context.Cause(ctx))
}

// signal ignores the only possible error: the process has already exited.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// kill kills the postmaster and its children, like a power cut. It stops (SIGSTOP) the
// postmaster first, so that the list of children is complete.
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

// killGroup kills a child started with Setpgid, and its children.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// isPostmaster reports whether pid is a postmaster that uses data. The child processes of a postmaster have another command line.
func isPostmaster(pid int, data string) (bool, error) {
	command, err := commandOf(pid)
	if err != nil {
		return false, fmt.Errorf("reading the command line of process %d: %w", pid, err)
	}
	return strings.Contains(command, "postgres") && strings.Contains(command+" ", "-D "+data+" "), nil
}

// commandOf returns the command line of a process, separated by spaces; it is empty if there is no such process. Linux often
// lacks ps in a container, and macOS has only ps.
func commandOf(pid int) (string, error) {
	if runtime.GOOS == "linux" {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return "", nil
		}
		return strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " ")), err
	}
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	var status *exec.ExitError
	if errors.As(err, &status) {
		return "", nil // no such process
	}
	return strings.TrimSpace(string(out)), err
}

// childrenOf returns the direct children of a process.
func childrenOf(parent int) ([]int, error) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
	if errors.Is(err, fs.ErrNotExist) { // another system than Linux, or a kernel without this file
		list, err = exec.Command("pgrep", "-P", strconv.Itoa(parent)).Output()
	}
	if err != nil {
		return nil, fmt.Errorf("listing the children of process %d: %w", parent, err)
	}
	var children []int
	for _, field := range strings.Fields(string(list)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("listing the children of process %d: %w", parent, err)
		}
		children = append(children, child)
	}
	return children, nil
}
