package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// startTimeout bounds the start of Postgres. The recovery of a large cluster after a
	// crash takes longest.
	startTimeout = time.Minute
	// sessionExitTimeout bounds the wait for the sessions of a killed postmaster to exit.
	sessionExitTimeout = 10 * time.Second
	// probeInterval is the pause between two probes of a starting Postgres.
	probeInterval = 10 * time.Millisecond
	// connectTimeout bounds one probe: another program on the port may accept the
	// connection and never answer.
	connectTimeout = time.Second
	// failedStartTimeout bounds the fast shutdown after a failed start.
	failedStartTimeout = 5 * time.Second
	tailLines          = 12
)

// start runs the postmaster and returns when it accepts connections. The previous run
// must have exited.
func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %s", startTimeout))
	defer cancel()
	if err := c.keepOldLog(); err != nil {
		return err
	}
	sessionsDeadline := time.Now().Add(sessionExitTimeout)
	for {
		stale, err := neutralizeStalePID(c.data())
		if err != nil {
			return err
		}
		err = c.attempt(ctx)
		if err == nil {
			return c.lock.writeHolder(c.port)
		}
		// After a kill, sessions may exit later than their postmaster, and Postgres refuses to start before they exit. They are not
		// children of this process, so it can only retry.
		if !stale || time.Now().After(sessionsDeadline) || checkFree(ctx, c.port) != nil || !pause(ctx, probeInterval) {
			return err
		}
	}
}

// attempt runs the postmaster once. After an error the postmaster has exited.
func (c *Cluster) attempt(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(c.dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of Postgres: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(filepath.Join(c.binDir, "postgres"), c.cfg.arguments(c.data(), c.port)...)
	cmd.Dir = c.dir
	cmd.Env = append(childEnv(), c.cfg.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = c.account.processAttributes()
	proc, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("starting %s as %s: %w", cmd.Path, c.account, err)
	}
	if err := c.awaitReady(ctx, proc); err != nil {
		abandon, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedStartTimeout)
		defer cancel()
		return errors.Join(err, proc.stop(abandon))
	}
	c.proc.Store(proc)
	return nil
}

// awaitReady blocks until the postmaster accepts connections, exits or ctx ends.
func (c *Cluster) awaitReady(ctx context.Context, proc *process) error {
	for {
		err := c.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-proc.done:
			return c.startFailure(proc)
		case <-ctx.Done():
			return fmt.Errorf("waiting for Postgres on port %d: %w (its last answer: %w)", c.port, context.Cause(ctx), err)
		case <-time.After(probeInterval):
		}
	}
}

// probe returns nil if the server on the port of the cluster uses the folder of the cluster. Another server may have taken the
// port first.
func (c *Cluster) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the probe only reads
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	if data != c.data() {
		return fmt.Errorf("the server on this port works on %s", data)
	}
	return nil
}

func (c *Cluster) startFailure(proc *process) error {
	cause := proc.err
	if cause == nil {
		cause = errors.New("it exited without an error")
	}
	err := fmt.Errorf("starting Postgres in %s on port %d: %w", c.dir, c.port, cause)
	log, readErr := os.ReadFile(filepath.Join(c.dir, logName)) // the log is small, because it began with this start
	if readErr != nil {
		return errors.Join(err, fmt.Errorf("reading the log of Postgres: %w", readErr))
	}
	return fmt.Errorf("%w; the last lines of %s:\n%s", err, filepath.Join(c.dir, logName), tail(log))
}

// keepOldLog renames the log of the last run, so that the log of a crash still exists after the next start. At most two logs
// exist.
func (c *Cluster) keepOldLog() error {
	name := filepath.Join(c.dir, logName)
	if err := os.Rename(name, filepath.Join(c.dir, oldLogName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keeping the last log of Postgres: %w", err)
	}
	return nil
}

// tail returns the last lines of an output.
func tail(output []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n"))
}

// pause waits for d and returns false when ctx ended first.
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
