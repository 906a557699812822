package world

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

const (
	// childURL and childListenURL make this program a server.
	childURL       = "BELFRY_CHAOS_CHILD_URL"
	childListenURL = "BELFRY_CHAOS_CHILD_LISTEN_URL"
	// startPatience bounds the start of a server; the database may be away for a
	// while meanwhile.
	startPatience = time.Minute
	// stopPatience bounds a stop in order. Belfry's own last flush takes 15 s at
	// most, its last notification 2 s, and requests in flight their timeout.
	stopPatience = 40 * time.Second
)

// What servers are given instead of the defaults, so that a minute holds many
// faults: they notice silence five times sooner.
const (
	requestTimeout = 2 * time.Second
	canaryInterval = 2 * time.Second
	canaryTimeout  = time.Second
	peerTimeout    = 5 * time.Second
	poolSize       = 8
	sweepInterval  = 500 * time.Millisecond
	cleanupDays    = 1
	// Queues that a push makes are like those that the workload configures.
	leaseTime  = 2 * time.Second
	retryLimit = 1
)

// IdleAfter is how long nothing must have been pushed to an empty partition before
// the servers remove it.
const IdleAfter = cleanupDays * 24 * time.Hour

// Child runs a server and returns true if this process was started to be one. It
// ends at SIGTERM, and when the process that started it is gone. The result is
// the exit code.
func Child() (code int, child bool) {
	dsn := os.Getenv(childURL)
	if dsn == "" {
		return 0, false
	}
	if err := serve(dsn, os.Getenv(childListenURL)); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "server: %v\n", err)
		return 1, true
	}
	return 0, true
}

func serve(dsn, listenDSN string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// An interrupt at the terminal is for the parent, which then stops us in order.
	signal.Ignore(os.Interrupt)
	if offset := os.Getenv(childClock); offset != "" {
		if err := step(offset); err != nil {
			return err
		}
	}
	// Standard input sets the clock. It ends with the parent, however that ends;
	// then nobody needs a stop in order.
	go func() {
		if err := obey(os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "server: %v\n", err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}()
	cfg := config.Default()
	cfg.Database.URL, cfg.Database.ListenURL = dsn, listenDSN
	cfg.Database.PoolSize, cfg.Database.RequestTimeout = poolSize, requestTimeout
	cfg.Listen.CanaryInterval, cfg.Listen.CanaryTimeout, cfg.Listen.PeerTimeout = canaryInterval, canaryTimeout, peerTimeout
	cfg.Sweep.RetentionInterval, cfg.Sweep.EvictionInterval, cfg.Sweep.PartitionCleanupInterval = sweepInterval, sweepInterval, sweepInterval
	cfg.Sweep.PartitionCleanupDays = cleanupDays
	cfg.Defaults.LeaseTime, cfg.Defaults.RetryLimit = leaseTime, retryLimit
	cfg.HTTP.Addr = "127.0.0.1:0"
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("configuring the server: %w", err)
	}
	log, err := zap.NewProduction(zap.IncreaseLevel(zap.WarnLevel))
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	// Standard output is the parent's way to learn the address, and then the time
	// when it steps the clock; nothing else.
	return app.Run(ctx, cfg, log, func(addr net.Addr) { _, _ = fmt.Fprintln(os.Stdout, addr) })
}

// server is one instance: the network around it stays, its process comes and
// goes.
type server struct {
	name string
	log  string
	// program is what it is a run of; empty means this one.
	program string
	// The network: clients reach it through clients, and it reaches Postgres
	// through database, and through listener for LISTEN and NOTIFY.
	clients, database, listener link
	dsn, listenDSN              string

	// busy is held by the fault that stops the process, until it runs again.
	busy sync.Mutex
	// The latest process; written under busy.
	process *os.Process
	stdin   io.Writer
	// lines are what the process says: its address, and its time when asked.
	lines chan string
	// offset is how far its wall clock is off.
	offset time.Duration
	// done closes when the process has ended, and err is then what Wait returned.
	done chan struct{}
	err  error
}

// newServer makes the network of a server that is not started. Its database has an
// address for each Postgres, or is behind a pooler, which those who listen pass by.
func newServer(ctx context.Context, name, dir string, database, addresses []string) (s *server, err error) {
	s = &server{name: name, log: filepath.Join(dir, name+".log")}
	defer func() {
		if err != nil {
			s.closeNetwork()
		}
	}()
	// Nothing listens there until the process runs.
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

// start runs the process and returns once it answers requests.
func (s *server) start(ctx context.Context) error {
	program := s.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return fmt.Errorf("finding our own program: %w", err)
		}
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", s.name, err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childURL+"="+s.dsn, childListenURL+"="+s.listenDSN)
	if s.offset != 0 {
		cmd.Env = append(cmd.Env, childClock+"="+s.offset.String())
	}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return errors.Join(fmt.Errorf("starting %s: %w", s.name, err), log.Close())
	}
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		return errors.Join(fmt.Errorf("starting %s: %w", s.name, err), log.Close())
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting %s: %w", s.name, err), log.Close())
	}
	done, lines := make(chan struct{}), make(chan string, 1)
	s.process, s.done, s.lines, s.err = cmd.Process, done, lines, nil
	go func() {
		defer close(done)
		for said := bufio.NewScanner(out); said.Scan(); {
			select {
			case lines <- said.Text():
			default: // nobody has asked for that; what nobody reads must not block the end
			}
		}
		s.err = errors.Join(cmd.Wait(), log.Close())
	}()
	timer := time.NewTimer(startPatience)
	defer timer.Stop()
	select {
	case where := <-lines:
		s.clients[0].Retarget(where)
		return nil
	case <-done:
		return fmt.Errorf("%s did not start, see its log: %w", s.name, s.err)
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not start within %s", s.name, startPatience), s.kill())
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("starting %s: %w", s.name, ctx.Err()), s.kill())
	}
}

// kill ends the process without warning and returns when it is gone.
func (s *server) kill() error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", s.name, err)
	}
	<-s.done
	return nil
}

// stop asks the process to end, and fails when that takes too long or the process
// says that it went wrong.
func (s *server) stop() error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", s.name, err)
	}
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop within %s", s.name, stopPatience), s.kill())
	}
	if s.err != nil {
		return fmt.Errorf("%s stopped badly: %w", s.name, s.err)
	}
	return nil
}

// died says whether the process ended by itself. The caller must hold busy.
func (s *server) died() error {
	select {
	case <-s.done:
		return fmt.Errorf("%s died, see its log: %w", s.name, s.err)
	default:
		return nil
	}
}

func (s *server) closeNetwork() {
	for _, l := range []link{s.clients, s.database, s.listener} {
		l.close()
	}
}
