package inbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/test/bench/rig"
)

// insertChild is the name of the child process that inserts. The server and the inserters are separate processes. In the
// process of the test, they would wait for each other in the scheduler and the garbage collector of Go.
const insertChild = "inserter"

// insertJob tells an inserter what to insert.
type insertJob struct {
	DSN, Setting, Insert string
	// Pace is the number of statements per second, each with a planned start. 0 means that no statement waits.
	Pace     float64
	Duration time.Duration
}

// inserter is a process that inserts. The test calls run once and then stop.
type inserter struct {
	f       *fixture
	process *rig.Process
}

// startInserter starts a process and returns when the process has opened all its connections.
func (f *fixture) startInserter(d design, pace float64) *inserter {
	f.T.Helper()
	process, err := rig.Start(insertChild)
	require.NoError(f.T, err)
	job, err := json.Marshal(insertJob{f.DSN, d.setting, d.insert, pace, *duration})
	require.NoError(f.T, err)
	require.NoError(f.T, process.WriteLine(string(job)))
	_, err = process.ReadLine(f.Ctx)
	require.NoError(f.T, err, "the inserter did not start")
	return &inserter{f, process}
}

// run inserts for the time -load and returns the number of committed statements per second.
func (l *inserter) run() float64 {
	l.f.T.Helper()
	require.NoError(l.f.T, l.process.WriteLine("run"))
	line, err := l.process.ReadLine(l.f.Ctx)
	require.NoError(l.f.T, err)
	rate, err := strconv.ParseFloat(line, 64)
	require.NoError(l.f.T, err)
	return rate
}

func (l *inserter) stop() {
	l.f.T.Helper()
	require.NoError(l.f.T, l.process.Stop())
}

// insertAlone returns the statements per second of one design without other load.
func (f *fixture) insertAlone(d design) float64 {
	f.T.Helper()
	l := f.startInserter(d, 0)
	defer l.stop()
	return l.run()
}

// runInserter is the main function of an inserter. It reads a job, connects and writes a line. After the next input line it
// inserts, and then writes the statements per second. Its connections stay open until in ends. Each connection first
// inserts one row, because a session compiles its triggers at the first insert, and real producers keep their sessions.
func runInserter(in *bufio.Reader, out io.Writer) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var job insertJob
	if err := json.Unmarshal(line, &job); err != nil {
		return err
	}
	ctx := context.Background()
	conns := make([]*pgx.Conn, connections)
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, job.DSN); err != nil {
			return err
		}
		for _, statement := range []string{job.Setting, job.Insert} {
			if _, err := conns[i].Exec(ctx, statement); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintln(out, "connected"); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	rate, err := job.insert(ctx, conns)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, rate); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// insert inserts with all connections and returns the statements per second.
func (j insertJob) insert(ctx context.Context, conns []*pgx.Conn) (float64, error) {
	var statements atomic.Int64
	began := time.Now()
	pacer := load.NewPacer(began, began.Add(j.Duration), j.Pace, 1)
	workers := load.NewWorkers(ctx)
	for _, conn := range conns {
		workers.Go(func(ctx context.Context) error {
			for {
				if _, ok := pacer.Next(ctx); !ok {
					return nil
				}
				if _, err := conn.Exec(ctx, j.Insert); err != nil {
					return err
				}
				statements.Add(1)
			}
		})
	}
	err := workers.Wait()
	return float64(statements.Load()) / time.Since(began).Seconds(), err
}
