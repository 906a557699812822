package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// startTimeout bounds the wait for a starting Postgres. Recovery of a large
	// cluster after a crash takes the longest.
	startTimeout = time.Minute
	// lingerTimeout is how long sessions of a killed postmaster may hold on to
	// the data.
	lingerTimeout = 10 * time.Second
	// lookInterval is the pause between two looks at a starting Postgres.
	lookInterval = 10 * time.Millisecond
	// connectTimeout bounds one look: a foreign process on the port may accept
	// and then say nothing.
	connectTimeout = time.Second
	// abandonTimeout is how long a start that failed half-way waits for Postgres
	// to stop in order.
	abandonTimeout = 5 * time.Second
	tailLines      = 12
)

// start runs the postmaster and returns once it answers. The previous run must
// have exited.
func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %s", startTimeout))
	defer cancel()
	if err := c.keepOldLog(); err != nil {
		return err
	}
	lingering := time.Now().Add(lingerTimeout)
	for {
		stale, err := clearStalePID(c.data())
		if err != nil {
			return err
		}
		err = c.attempt(ctx)
		if err == nil {
			return c.lock.tell(c.port)
		}
		// After a kill, sessions may outlive their postmaster by an instant, and
		// Postgres refuses to start until they are gone. They are nobody's
		// children, so looking again is all there is.
		if !stale || time.Now().After(lingering) || checkFree(ctx, c.port) != nil || !pause(ctx, lookInterval) {
			return err
		}
	}
}

// attempt runs the postmaster once. After an error it is gone again.
func (c *Cluster) attempt(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(c.dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of Postgres: %w", err)
	}
	defer func() { _ = log.Close() }() // Postgres has its own handle
	cmd := exec.Command(filepath.Join(c.binDir, "postgres"), c.cfg.arguments(c.data(), c.port)...)
	cmd.Dir = c.dir
	cmd.Env = childEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = c.account.processAttributes()
	proc, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("starting %s as %s: %w", cmd.Path, c.account, err)
	}
	if err := c.awaitReady(ctx, proc); err != nil {
		abandon, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
		defer cancel()
		return errors.Join(err, proc.stop(abandon))
	}
	c.mu.Lock()
	c.proc = proc
	c.mu.Unlock()
	return nil
}

// awaitReady looks until the postmaster answers, exits or ctx ends.
func (c *Cluster) awaitReady(ctx context.Context, proc *process) error {
	for {
		err := c.look(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-proc.done:
			return c.earlyExit(proc)
		case <-ctx.Done():
			return fmt.Errorf("waiting for Postgres on port %d: %w (its last answer: %w)", c.port, context.Cause(ctx), err)
		case <-time.After(lookInterval):
		}
	}
}

// look succeeds when the server on our port is the one of our folder: a foreign
// server may have been faster to take the port.
func (c *Cluster) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // read only
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	if data != c.data() {
		return fmt.Errorf("the server there works on %s", data)
	}
	return nil
}

func (c *Cluster) earlyExit(proc *process) error {
	cause := proc.err
	if cause == nil {
		cause = errors.New("it ended without an error")
	}
	err := fmt.Errorf("starting Postgres in %s on port %d: %w", c.dir, c.port, cause)
	content, readErr := readTail(filepath.Join(c.dir, logName))
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("%w; the last lines of %s:\n%s", err, filepath.Join(c.dir, logName), tail(content))
}

// keepOldLog makes room for a new log: bounded, and the log of a crash survives
// the next start.
func (c *Cluster) keepOldLog() error {
	name := filepath.Join(c.dir, logName)
	if err := os.Rename(name, filepath.Join(c.dir, oldLogName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keeping the last log of Postgres: %w", err)
	}
	return nil
}

// readTail returns the end of a file, enough for the last lines.
func readTail(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the log of Postgres: %w", err)
	}
	defer func() { _ = file.Close() }() // read only
	const enough = 8 << 10
	if info, err := file.Stat(); err == nil && info.Size() > enough {
		if _, err := file.Seek(-enough, io.SeekEnd); err != nil {
			return nil, fmt.Errorf("reading the log of Postgres: %w", err)
		}
	}
	return io.ReadAll(file)
}

// tail keeps the last lines of an output.
func tail(output []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n"))
}

// pause waits and tells whether ctx is still alive.
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
