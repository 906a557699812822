package devdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// superuser owns the cluster and everything in it.
const superuser = "postgres"

// Cluster is a private Postgres of this process. Its methods may be called from
// several goroutines.
type Cluster struct {
	cfg     Config
	dir     string
	binDir  string
	account account
	log     *zap.Logger

	// lifecycle serializes Stop and Restart, which hold it while they block.
	lifecycle sync.Mutex
	lock      *lock                   // Stop releases it; guarded by lifecycle
	proc      atomic.Pointer[process] // the latest run
	port      int                     // written before the first run, then constant
}

// Start starts the cluster in cfg.Dir and returns when it accepts connections. It creates the folder, runs initdb the first time,
// and takes over from an owner that died. It waits for Postgres for at most a minute, or until ctx ends. It returns an
// *InUseError if another process owns the folder. It also fails if the folder has other content, or if the data has another major
// version. After an error no process of Postgres is left. The caller must call Stop.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.normalized()
	if err != nil {
		return nil, err
	}
	dir, l, err := openFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, dir: dir, log: cfg.Log, lock: l}
	if err := c.firstStart(ctx); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return c, nil
}

func (c *Cluster) firstStart(ctx context.Context) (err error) {
	if c.account, err = accountFor(c.data()); err != nil {
		return err
	}
	if c.binDir, err = FindBinaries(ctx, c.log); err != nil {
		return err
	}
	if err := stopOrphan(ctx, c.data(), c.log); err != nil {
		return err
	}
	if err := c.prepare(ctx, c.cfg.Fresh); err != nil {
		return err
	}
	if err := c.startOnSomePort(ctx); err != nil {
		return err
	}
	c.log.Info("Postgres is running", zap.Int("port", c.port), zap.String("dir", c.dir), zap.String("programs", c.binDir))
	return nil
}

// startOnSomePort starts on the configured port or on a free port. Another process may take a free port before Postgres does.
// Then the next free port is tried.
func (c *Cluster) startOnSomePort(ctx context.Context) error {
	if c.cfg.Port != 0 {
		if err := checkFree(ctx, c.cfg.Port); err != nil {
			return err
		}
		c.port = c.cfg.Port
		return c.start(ctx)
	}
	const tries = 5
	var err error
	for range tries {
		if c.port, err = freePort(ctx); err != nil {
			return err
		}
		if err = c.start(ctx); err == nil || ctx.Err() != nil || checkFree(ctx, c.port) == nil {
			return err
		}
	}
	return err
}

// URL returns the DSN of a database of the cluster for its superuser. Restart does not
// change it.
func (c *Cluster) URL(database string) string {
	dsn := url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return dsn.String()
}

// Port returns the TCP port on 127.0.0.1. Restart does not change it.
func (c *Cluster) Port() int { return c.port }

// Dir returns the folder of the cluster, absolute and without symbolic links.
func (c *Cluster) Dir() string { return c.dir }

// Done returns a channel that is closed when the postmaster has exited for any reason.
// Restart starts a new run with a new channel.
func (c *Cluster) Done() <-chan struct{} { return c.proc.Load().done }

// Stop shuts Postgres down and releases the folder. This fast shutdown ends the sessions and writes a checkpoint. If ctx ends
// first, Stop ends Postgres immediately and returns an error. The next start then recovers. When Stop returns, Postgres has
// always exited. A second Stop does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	return errors.Join(c.proc.Load().stop(ctx), c.lock.release())
}

// Kill kills every process of Postgres, like a power cut, and returns when the postmaster
// has exited. The folder stays locked: call Restart or Stop afterwards.
func (c *Cluster) Kill() error { return c.proc.Load().kill() }

// Restart starts Postgres again after Stop, Kill or a crash, in the same folder and on the same port. It returns when Postgres
// accepts connections, and waits for at most a minute. After an error it may be called again. The caller must call Stop.
func (c *Cluster) Restart(ctx context.Context) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	if !c.proc.Load().exited() {
		return fmt.Errorf("restarting the cluster in %s: it is running; call Stop or Kill first", c.dir)
	}
	if !c.lock.file.Locked() {
		_, l, err := openFolder(c.dir)
		if err != nil {
			return err
		}
		c.lock = l
	}
	if err := stopOrphan(ctx, c.data(), c.log); err != nil {
		return err
	}
	return c.start(ctx)
}

// CREATE DATABASE fails with duplicateDatabase if the name exists. A concurrent creation
// can fail with uniqueViolation instead.
const (
	duplicateDatabase = "42P04"
	uniqueViolation   = "23505"
)

// CreateDatabase creates a database unless it exists. The end of ctx cancels it.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("creating the database %s: %w", name, err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == duplicateDatabase || refused.Code == uniqueViolation) {
		err = nil
	}
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("creating the database %s: %w", name, err)
	}
	return nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, dataName) }

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("picking a free port: %w", err)
	}
	return portOf(l), l.Close()
}

// portOf returns the port of a TCP listener.
func portOf(l net.Listener) int {
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

// checkFree returns an error when no program can listen on the port.
func checkFree(ctx context.Context, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("the port %d for Postgres cannot be used: choose another one, or 0 for a free one: %w", port, err)
	}
	return l.Close()
}
