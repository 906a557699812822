package world

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/bench/rig"
	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

const (
	serverChild = "chaos server"
	// childURL and childListenURL are the environment variables with the URLs of the database.
	childURL       = "BELFRY_CHAOS_CHILD_URL"
	childListenURL = "BELFRY_CHAOS_CHILD_LISTEN_URL"
	// startPatience is the timeout of the start of a server. The database may be unavailable during the start.
	startPatience = time.Minute
	// stopPatience is the timeout of an orderly stop. The last flush of Belfry takes at most 15 s, the last
	// notification at most 2 s, and open requests at most their timeout.
	stopPatience = 40 * time.Second
)

// These settings are shorter than the defaults, so that one minute contains many faults. For example, servers notice
// a silent connection five times sooner.
const (
	requestTimeout = 2 * time.Second
	canaryInterval = 2 * time.Second
	canaryTimeout  = time.Second
	peerTimeout    = 5 * time.Second
	poolSize       = 8
	sweepInterval  = 500 * time.Millisecond
	bodyTimeout    = 2 * time.Second
	writeTimeout   = 2 * time.Second
	cleanupDays    = 1
	// Queues created by a push get the same options as the queues that the workload configures.
	leaseTime  = 2 * time.Second
	retryLimit = 1
)

// IdleAfter is the time without pushes after which the servers remove an empty partition.
const IdleAfter = cleanupDays * 24 * time.Hour

// Child runs a server if this process was started as a server, and then returns true. The server ends at SIGTERM, or
// when its parent process ends. code is the exit code.
func Child() (code int, child bool) { return rig.RunChild(map[string]rig.Child{serverChild: serve}) }

func serve(in *bufio.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if offset := os.Getenv(childClock); offset != "" {
		if err := step(offset); err != nil {
			return err
		}
	}
	// Standard input sets the clock. It ends with the parent process. In that case the server is killed.
	go func() {
		if err := serveClock(in, out); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "server: %v\n", err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}()
	cfg := config.Default()
	cfg.Database.URL, cfg.Database.ListenURL = setting.Secret(os.Getenv(childURL)), setting.Secret(os.Getenv(childListenURL))
	cfg.HTTP.DrainDelay = 0
	cfg.Database.PoolSize, cfg.Database.RequestTimeout = poolSize, requestTimeout
	cfg.Listen.CanaryInterval, cfg.Listen.CanaryTimeout, cfg.Listen.PeerTimeout = canaryInterval, canaryTimeout, peerTimeout
	cfg.Sweep.RetentionInterval, cfg.Sweep.EvictionInterval, cfg.Sweep.PartitionCleanupInterval = sweepInterval, sweepInterval, sweepInterval
	cfg.Sweep.PartitionCleanupDays = cleanupDays
	cfg.Defaults.LeaseTime, cfg.Defaults.RetryLimit, cfg.Defaults.RetryDelay = leaseTime, retryLimit, 0
	cfg.HTTP.Addr = "127.0.0.1:0"
	cfg.Auth.Enabled, cfg.Auth.Secret = true, setting.Secret(principals.Secret)
	cfg.HTTP.BodyTimeout, cfg.HTTP.WriteTimeout = bodyTimeout, writeTimeout
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("configuring the server: %w", err)
	}
	log, err := zap.NewProduction(zap.IncreaseLevel(zap.WarnLevel))
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	// Standard output has only the address, and the time after each step of the clock.
	return app.Run(ctx, cfg, log, func(addr net.Addr) { _, _ = fmt.Fprintln(out, addr) })
}

// server is one Belfry instance. Its network stays the same, and its process is restarted.
type server struct {
	name string
	log  string
	// program is the path of the program of the server. Empty means the program of this process.
	program string
	// These links are the network. Clients reach the server through clients. The server reaches Postgres through
	// database, and for LISTEN and NOTIFY through listener.
	clients, database, listener link
	dsn, listenDSN              string
	// address is the address of the latest process.
	address atomic.Pointer[string]

	// busy is locked by a fault that stops the process, until the process runs again.
	busy sync.Mutex
	// process is the latest process, or nil. It is written under busy. It prints its address, and its time on
	// request.
	process *rig.Process
	// offset is the offset of the server's wall clock.
	offset time.Duration
}

// newServer opens the network of a server without starting the server. database has the address of each Postgres, or
// the address of a pooler. addresses are the addresses of Postgres for listeners, which bypass the pooler.
func newServer(ctx context.Context, name, dir string, database, addresses []string) (s *server, err error) {
	s = &server{name: name, log: filepath.Join(dir, name+".log")}
	defer func() {
		if err != nil {
			s.closeNetwork()
		}
	}()
	// No process listens on this port. start sets the address of the server.
	clients, err := pgproxy.OpenPlain(ctx, "127.0.0.1:1")
	if err != nil {
		return nil, err
	}
	s.clients = link{clients}
	if s.database, err = openLink(ctx, database); err != nil {
		return nil, err
	}
	if s.listener, err = openLink(ctx, addresses); err != nil {
		return nil, err
	}
	s.dsn, s.listenDSN = dsn(s.database.addresses()), dsn(s.listener.addresses())
	return s, nil
}

// start starts the process and returns when the server accepts requests.
func (s *server) start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", s.name, err)
	}
	env := []string{childURL + "=" + s.dsn, childListenURL + "=" + s.listenDSN}
	if s.offset != 0 {
		env = append(env, childClock+"="+s.offset.String())
	}
	process, err := rig.Program{Name: serverChild, Path: s.program, Env: env, Errors: log}.Start()
	if err = errors.Join(err, log.Close()); err != nil { // the process has a separate handle of the log
		return err
	}
	s.process = process
	starting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	where, err := process.ReadLine(starting)
	if err != nil {
		return errors.Join(fmt.Errorf("starting %s, see its log: %w", s.name, err), s.kill())
	}
	s.clients[0].Retarget(where)
	s.address.Store(&where)
	return nil
}

// kill kills the process and waits until it has ended.
func (s *server) kill() error {
	if s.process == nil {
		return nil
	}
	return s.process.Kill()
}

// stop terminates the process. It returns an error if this takes too long or the exit code is not 0.
func (s *server) stop() error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Terminate(stopPatience); err != nil {
		return fmt.Errorf("stopping %s: %w", s.name, err)
	}
	return nil
}

// died returns an error if the process ended by itself. The caller holds busy.
func (s *server) died() error {
	if ended, err := s.process.Ended(); ended {
		return fmt.Errorf("%s died, see its log: %w", s.name, err)
	}
	return nil
}

func (s *server) closeNetwork() {
	for _, l := range []link{s.clients, s.database, s.listener} {
		l.close()
	}
}
