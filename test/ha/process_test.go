//go:build installed && linux

package ha

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killed is the signal that ends a process as a power failure does.
const killed = syscall.SIGKILL

// account returns the attributes of processes that must not run as root, and the ids of their account. The ids are -1 if this
// process does not run as root.
func account() (attributes *syscall.SysProcAttr, uid, gid int, err error) {
	attributes = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: killed}
	if os.Geteuid() != 0 {
		return attributes, -1, -1, nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		return nil, 0, 0, fmt.Errorf("Patroni does not run as root: %w", err)
	}
	uid, err = strconv.Atoi(found.Uid)
	if err == nil {
		gid, err = strconv.Atoi(found.Gid)
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, uid, gid, err
}

// process is a program that runs in its own process group.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a program with exactly the given environment. Its output is appended to the file log.
func start(log string, env []string, program string, args ...string) (_ *process, err error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", program, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	if p.cmd.SysProcAttr, _, _, err = account(); err != nil {
		return nil, err
	}
	p.cmd.Env = append([]string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8"}, env...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = out, out, filepath.Dir(log)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the log says why it ended
	}()
	return p, nil
}

// signal sends a signal to the process group.
func (p *process) signal(s syscall.Signal) {
	if p != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may have ended
	}
}

// kill ends the process group and waits for the end.
func (p *process) kill() {
	if p != nil {
		p.signal(killed)
		<-p.ended
	}
}

// postmaster returns the process id of the Postgres with a data folder, or 0.
func postmaster(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0
	}
	where, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil || where != data { // Postgres works in its data folder
		return 0
	}
	return pid
}

// signalPostgres sends a signal to the Postgres with a data folder and to its children.
func signalPostgres(data string, s syscall.Signal) {
	parent := postmaster(data)
	if parent == 0 {
		return
	}
	children := childrenOf(parent)
	_ = syscall.Kill(parent, s) // it starts no more children
	for _, pid := range append(children, childrenOf(parent)...) {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// dirPrefix is the begin of the name of a folder with a cluster. The id of the test process follows.
const dirPrefix = "belfry-ha-"

// sweep ends the Postgres servers of killed test processes, and removes their folders. All other processes of a cluster end with
// the test process.
func sweep() error {
	dirs, err := filepath.Glob("/tmp/" + dirPrefix + "*-*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), dirPrefix+"%d-", &pid); err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		for i := range 3 {
			signalPostgres(filepath.Join(dir, fmt.Sprintf("node%d", i+1)), killed)
		}
		_ = os.RemoveAll(dir) // a server that ends now may still write; then the next sweep removes the folder
	}
	return nil
}

// childrenOf returns the ids of the child processes.
func childrenOf(parent int) (children []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

// pause waits for d and returns true. If ctx ends first, it returns false.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
