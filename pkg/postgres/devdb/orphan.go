package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	// orphanTimeout bounds the fast shutdown of an orphaned Postgres.
	orphanTimeout = 20 * time.Second
	// immediateTimeout bounds an immediate shutdown. During this shutdown, Postgres waits 5 seconds for its processes and then
	// kills them.
	immediateTimeout = 10 * time.Second
	// orphanPoll is the interval of the checks whether the orphan has exited. This process is not its parent, so it gets no
	// signal.
	orphanPoll = 20 * time.Millisecond
)

func pidFile(data string) string { return filepath.Join(data, "postmaster.pid") }

// readPIDFile returns the content of postmaster.pid and its process id; 0: there is no file, or it has no number. A negative
// number means that a user runs Postgres in single-user mode. readPIDFile then returns 0, because Postgres itself refuses to
// start.
func readPIDFile(data string) (content []byte, pid int, err error) {
	content, err = os.ReadFile(pidFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the pid file of Postgres: %w", err)
	}
	first, _, _ := bytes.Cut(content, []byte("\n"))
	pid, err = strconv.Atoi(string(bytes.TrimSpace(first)))
	switch {
	case err != nil:
		return content, 0, nil
	case pid < 0:
		return nil, 0, nil
	}
	return content, pid, nil
}

// stopOrphan stops a Postgres that runs on data although this process holds the lock, which means that its owner died. It blocks
// until the process has exited or ctx ends.
func stopOrphan(ctx context.Context, data string, log *zap.Logger) error {
	_, pid, err := readPIDFile(data)
	if err != nil || pid == 0 {
		return err
	}
	running, err := isPostmaster(pid, data)
	if err != nil || !running {
		return err
	}
	log.Warn("stopping the Postgres of a run whose owner died", zap.Int("pid", pid), zap.String("dir", filepath.Dir(data)))
	for _, step := range []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{
		{syscall.SIGINT, orphanTimeout}, {syscall.SIGQUIT, immediateTimeout}, {syscall.SIGKILL, immediateTimeout},
	} {
		if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping the orphaned Postgres in %s (process %d, stop it yourself): %w", data, pid, err)
		}
		gone, err := awaitExit(ctx, pid, data, step.timeout)
		if err != nil {
			return fmt.Errorf("stopping the orphaned Postgres in %s (process %d): %w", data, pid, err)
		}
		if gone {
			return nil
		}
	}
	return fmt.Errorf("the orphaned Postgres in %s (process %d) does not stop: stop it yourself", data, pid)
}

// awaitExit blocks until the postmaster has exited (true), timeout has passed (false) or ctx
// has ended (error).
func awaitExit(ctx context.Context, pid int, data string, timeout time.Duration) (bool, error) {
	for deadline := time.Now().Add(timeout); ; {
		running, err := isPostmaster(pid, data)
		switch {
		case err != nil || !running:
			return err == nil, err
		case time.Now().After(deadline):
			return false, nil
		case !pause(ctx, orphanPoll):
			return false, context.Cause(ctx)
		}
	}
}

// neutralizeStalePID makes a stale postmaster.pid harmless and reports whether there was one. It works in this way for three
// reasons:
//
//  1. Postgres refuses to start while any process of the same user has the process id in the file. After a power cut, another
//     process may soon have this id.
//  2. Postgres treats the process id of its parent as stale. So neutralizeStalePID writes the id of this process into the file.
//  3. The file is not removed. From its last line, Postgres detects sessions of the old postmaster that still run. They must not
//     share the data with a new postmaster.
func neutralizeStalePID(data string) (bool, error) {
	content, pid, err := readPIDFile(data)
	if err != nil || content == nil {
		return false, err
	}
	if pid == 0 { // empty or incomplete after a crash: Postgres would refuse it too
		err = os.Remove(pidFile(data))
	} else {
		_, rest, _ := bytes.Cut(content, []byte("\n"))
		err = os.WriteFile(pidFile(data), append(fmt.Appendf(nil, "%d\n", os.Getpid()), rest...), 0o600)
	}
	if err != nil {
		return false, fmt.Errorf("clearing the stale pid file of Postgres: %w", err)
	}
	return true, nil
}
