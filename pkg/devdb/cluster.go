package devdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"

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

	// changing serialises Stop and Restart. It is held while they wait, so Done,
	// Port and Kill do without it.
	changing sync.Mutex

	mu   sync.Mutex
	lock *lock    // nil after Stop; under changing and mu
	proc *process // the latest run; replaced by Restart under changing and mu
	port int      // written before the first run, then read only
}

// Start finds or makes the cluster in cfg.Dir, starts it and returns once it
// answers. It makes the folder, runs initdb at the first time, takes over from an
// owner that died, and refuses a folder that another one owns (*InUseError), that
// is not ours, or whose data is of another major version. It waits for Postgres
// at most a minute; the end of ctx stops it. After an error nothing is left
// running. The caller must call Stop.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
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
	if c.binDir, err = findBinaries(ctx, c.cfg.BinDir, c.log); err != nil {
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

// startOnSomePort starts on the wanted port or on a free one. A free one can be
// taken by another process before Postgres has it; then the next is tried.
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

// URL is the DSN of a database of the cluster for its superuser. It stays valid
// over Restart.
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

// Port is the TCP port on 127.0.0.1. It stays the same over Restart.
func (c *Cluster) Port() int { return c.port }

// Dir is the home of the cluster, absolute and without links.
func (c *Cluster) Dir() string { return c.dir }

// Done returns a channel that closes when the postmaster has exited, whether it
// was told to or died. Restart starts a new run with a new channel.
func (c *Cluster) Done() <-chan struct{} { return c.current().done }

func (c *Cluster) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// Stop shuts Postgres down, ending its sessions and writing its data out, and
// gives the folder back. When ctx ends first, Postgres is stopped at once, which
// the next start recovers from, and the error says so. Postgres is gone in every
// case. Stopping twice is fine.
func (c *Cluster) Stop(ctx context.Context) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	err := c.current().stop(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		err = errors.Join(err, c.lock.release())
		c.lock = nil
	}
	return err
}

// Kill ends every process of Postgres without warning, as a power cut would, and
// returns when the postmaster is gone. The folder stays ours: call Restart or
// Stop afterwards.
func (c *Cluster) Kill() error { return c.current().kill() }

// Restart starts Postgres again after Stop, Kill or a death of its own, on the
// same folder and port, and returns once it answers. Waiting ends like that of
// Start; after an error it may be called again, and Stop must be called.
func (c *Cluster) Restart(ctx context.Context) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if !c.current().exited() {
		return fmt.Errorf("restarting the cluster in %s: it is running; call Stop or Kill first", c.dir)
	}
	if c.lock == nil {
		_, l, err := openFolder(c.dir)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.lock = l
		c.mu.Unlock()
	}
	if err := stopOrphan(ctx, c.data(), c.log); err != nil {
		return err
	}
	return c.start(ctx)
}

func (c *Cluster) data() string { return filepath.Join(c.dir, dataName) }

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("picking a free port: %w", err)
	}
	port, err := portOf(l)
	if err := errors.Join(err, l.Close()); err != nil {
		return 0, fmt.Errorf("picking a free port: %w", err)
	}
	return port, nil
}

// portOf returns the port a TCP listener got.
func portOf(l net.Listener) (int, error) {
	addr, err := netip.ParseAddrPort(l.Addr().String())
	return int(addr.Port()), err
}

// checkFree fails when the port cannot be listened on.
func checkFree(ctx context.Context, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("the port %d for Postgres cannot be used: choose another one, or 0 for a free one: %w", port, err)
	}
	return l.Close()
}
