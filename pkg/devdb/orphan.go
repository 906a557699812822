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
	// orphanTimeout is how long a left-over Postgres may take to stop in order.
	orphanTimeout = 20 * time.Second
	// immediateTimeout is how long any Postgres may take to stop at once. It
	// gives its own processes 5 seconds before it kills them.
	immediateTimeout = 10 * time.Second
	// orphanPoll is how often we look whether it has: the system tells only a
	// parent when a process ends, and we are not its parent.
	orphanPoll = 20 * time.Millisecond
)

func isGone(err error) bool { return errors.Is(err, syscall.ESRCH) }

func pidFile(data string) string { return filepath.Join(data, "postmaster.pid") }

// readPIDFile returns the content of postmaster.pid and the process it names; 0
// when there is no file or no sense in it. A negative number is a person at work
// in single-user mode: that counts as no file, and Postgres itself refuses.
func readPIDFile(data string) (content []byte, pid int, err error) {
	content, err = os.ReadFile(pidFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading what the last Postgres left: %w", err)
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

// stopOrphan stops a Postgres that runs on data although we hold the lock: its
// owner died. The end of ctx breaks it off. log may be nil.
func stopOrphan(ctx context.Context, data string, log *zap.Logger) error {
	_, pid, err := readPIDFile(data)
	if err != nil || pid == 0 {
		return err
	}
	running, err := isPostmaster(pid, data)
	if err != nil || !running {
		return err
	}
	if log != nil {
		log.Warn("stopping the Postgres of a run that did not end in order", zap.Int("pid", pid), zap.String("dir", filepath.Dir(data)))
	}
	for _, step := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{
		{syscall.SIGINT, orphanTimeout}, {syscall.SIGQUIT, immediateTimeout}, {syscall.SIGKILL, immediateTimeout},
	} {
		if err := syscall.Kill(pid, step.signal); err != nil && !isGone(err) {
			return fmt.Errorf("stopping the Postgres left over in %s (process %d, stop it yourself): %w", data, pid, err)
		}
		gone, err := awaitGone(ctx, pid, data, step.patience)
		if err != nil {
			return fmt.Errorf("stopping the Postgres left over in %s (process %d): %w", data, pid, err)
		}
		if gone {
			return nil
		}
	}
	return fmt.Errorf("the Postgres left over in %s (process %d) does not stop: stop it yourself", data, pid)
}

func awaitGone(ctx context.Context, pid int, data string, patience time.Duration) (bool, error) {
	tick := time.NewTicker(orphanPoll)
	defer tick.Stop()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for {
		running, err := isPostmaster(pid, data)
		if err != nil || !running {
			return err == nil, err
		}
		select {
		case <-tick.C:
		case <-enough.C:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// clearStalePID makes a postmaster.pid that outlived its postmaster harmless and
// tells whether there was one. Postgres refuses to start while any process of
// the same user has the number in the file, and after a power cut some process
// soon does. It takes the number of its parent for stale, so the file gets ours.
// It is not removed: its last line lets Postgres see sessions that outlived the
// postmaster, which must not share the data with a new one.
func clearStalePID(data string) (bool, error) {
	content, pid, err := readPIDFile(data)
	if err != nil || content == nil {
		return false, err
	}
	if pid == 0 { // empty or torn by a crash: Postgres would refuse it too
		err = os.Remove(pidFile(data))
	} else {
		_, rest, _ := bytes.Cut(content, []byte("\n"))
		err = os.WriteFile(pidFile(data), append(fmt.Appendf(nil, "%d\n", os.Getpid()), rest...), 0o600)
	}
	if err != nil {
		return false, fmt.Errorf("clearing what a crashed Postgres left: %w", err)
	}
	return true, nil
}
