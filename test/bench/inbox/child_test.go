package inbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
)

// The server and those who insert are processes of their own, as they are at work:
// in one with the program that measures, they would wait for each other in the
// scheduler and the garbage collector of Go, and not in the server or in Postgres.
const (
	// childServer and childInsert make this test binary one of them.
	childServer = "BELFRY_BENCH_SERVER"
	childInsert = "BELFRY_BENCH_INSERT"
)

// child is the main of the processes that the tests start; ok: this is one.
func child() (code int, ok bool) {
	var err error
	switch {
	case os.Getenv(childServer) != "":
		err = serve(os.Getenv(childServer))
	case os.Getenv(childInsert) != "":
		err = insert(os.Getenv(childInsert))
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1, true
	}
	return 0, true
}

// start starts this test binary with a variable of the environment, and returns its
// input, what it writes, and what ends it: the end of its input. That must be called.
func start(t *testing.T, name, value string) (in io.WriteCloser, out *bufio.Reader, end func() error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), self)
	cmd.Env = append(os.Environ(), name+"="+value)
	cmd.Stderr = os.Stderr
	in, err = cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return in, bufio.NewReader(pipe), func() error {
		_ = in.Close() // it may have ended already
		return cmd.Wait()
	}
}

// serve runs a server on dsn until its input ends, and writes its address.
func serve(dsn string) error {
	cfg := config.Default()
	cfg.Database.URL = dsn
	cfg.Database.RequestTimeout = time.Minute
	cfg.HTTP.Addr = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
		cancel()
	}()
	return app.Run(ctx, cfg, zap.NewNop(), func(addr net.Addr) { fmt.Println(addr) })
}

// startServer starts a server on dsn and returns where it is.
func startServer(t *testing.T, dsn string) string {
	t.Helper()
	_, out, end := start(t, childServer, dsn)
	t.Cleanup(func() { require.NoError(t, end()) })
	address, err := out.ReadString('\n')
	require.NoError(t, err, "the server did not start")
	return "http://" + strings.TrimSpace(address)
}

// inserting is what a process that inserts is to do.
type inserting struct {
	DSN, Setting, Insert string
	// Pace is in statements a second, in which each is due at its instant, however
	// late those before it are; 0: none waits.
	Pace float64
	Load time.Duration
}

// inserters are a process that inserts; run and then end must be called.
type inserters struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	end func()
}

// inserters starts one and returns when it has all its connections.
func (r *rig) inserters(d design, pace float64) *inserters {
	r.t.Helper()
	what, err := json.Marshal(inserting{r.dsn, d.setting, d.insert, pace, *load})
	require.NoError(r.t, err)
	l := &inserters{t: r.t}
	var end func() error
	l.in, l.out, end = start(r.t, childInsert, string(what))
	l.end = func() { require.NoError(r.t, end()) }
	_, err = l.out.ReadString('\n')
	require.NoError(r.t, err, "those who insert did not start")
	return l
}

// run lets them insert for as long as a load takes and returns how many statements a
// second were committed.
func (l *inserters) run() (rate float64) {
	l.t.Helper()
	_, err := fmt.Fprintln(l.in)
	require.NoError(l.t, err)
	_, err = fmt.Fscan(l.out, &rate)
	require.NoError(l.t, err)
	return rate
}

// insertAll is run of inserters by themselves.
func (r *rig) insertAll(d design) float64 {
	r.t.Helper()
	l := r.inserters(d, 0)
	defer l.end()
	return l.run()
}

// insert connects, says so, begins when it is told and writes the statements a
// second; its connections stay until its input ends. Each inserts a row before that:
// a session compiles its triggers once, and producers keep theirs.
func insert(what string) error {
	var todo inserting
	if err := json.Unmarshal([]byte(what), &todo); err != nil {
		return err
	}
	ctx := context.Background()
	conns := make([]*pgx.Conn, connections)
	for i := range conns {
		conn, err := pgx.Connect(ctx, todo.DSN)
		if err == nil {
			_, err = conn.Exec(ctx, todo.Setting)
		}
		if err == nil {
			_, err = conn.Exec(ctx, todo.Insert)
		}
		if err != nil {
			return err
		}
		conns[i] = conn
	}
	fmt.Println("connected")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	var mu sync.Mutex
	var failure error
	total := 0
	began := time.Now()
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			n := 0
			var err error
			for time.Since(began) < todo.Load && err == nil {
				if todo.Pace > 0 {
					due := time.Duration(float64(n*connections+i) / todo.Pace * float64(time.Second))
					<-time.After(due - time.Since(began))
				}
				_, err = conn.Exec(ctx, todo.Insert)
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				failure = err
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if failure != nil {
		return failure
	}
	fmt.Println(float64(total) / took.Seconds())
	_, err := io.Copy(io.Discard, in)
	return err
}
