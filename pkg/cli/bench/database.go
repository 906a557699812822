package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// sampleInterval is the time between two samples of the waits for locks.
	sampleInterval = 50 * time.Millisecond
	// longWait is the time after which a wait for a lock counts as long.
	longWait = 100 * time.Millisecond
)

// connections are open connections to one database.
type connections []*pgx.Conn

// connect opens n connections.
func connect(ctx context.Context, url string, n int) (all connections, err error) {
	config, err := postgres.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("reading database.url: %w", err)
	}
	for i := range n {
		conn, err := postgres.Connect(ctx, config, "database.url")
		if err != nil {
			err = fmt.Errorf("connection %d of %d to the database: %w", i+1, n, err)
			return nil, errors.Join(err, all.close())
		}
		all = append(all, conn)
	}
	return all, nil
}

// close closes the connections, also after an interrupt.
func (c connections) close() error {
	var errs []error
	for _, conn := range c {
		errs = append(errs, conn.Close(context.Background()))
	}
	return errors.Join(errs...)
}

// Locks describes the waits for locks in a database during a run.
type Locks struct {
	// Samples is the number of samples of heavyweight locks. LongestMS is the longest wait.
	Samples   int     `json:"samples"`
	LongestMS float64 `json:"longestMs"`
	// Longest describes the longest wait: the type of the lock and the beginning of the statement.
	Longest string `json:"longest,omitempty"`
	// Long counts the samples with a wait of more than longWait.
	Long      int   `json:"long"`
	Deadlocks int64 `json:"deadlocks"`
}

// watchLocks samples the database at url until the returned function is called. With hold, it also keeps a snapshot
// open for that time.
func watchLocks(ctx context.Context, url string, hold bool) (end func() (*Locks, error), err error) {
	conns, err := connect(ctx, url, 2)
	if err != nil {
		return nil, err
	}
	if hold {
		// The first statement takes the snapshot.
		if _, err = conns[1].Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); err != nil {
			return nil, errors.Join(fmt.Errorf("holding a snapshot: %w", err), conns.close())
		}
	}
	before, err := deadlocks(ctx, conns[0])
	if err != nil {
		return nil, errors.Join(err, conns.close())
	}
	seen := &Locks{}
	lasting := context.WithoutCancel(ctx)
	sampling := load.NewWorkers(lasting)
	sampling.Go(func(ctx context.Context) error { return seen.sample(ctx, conns[0]) })
	return func() (*Locks, error) {
		err := sampling.Stop()
		after, failed := deadlocks(lasting, conns[0])
		if err := errors.Join(err, failed, conns.close()); err != nil {
			return nil, err
		}
		seen.Deadlocks = after - before
		return seen, nil
	}, nil
}

// sample samples waits for locks until ctx ends. The end of ctx does not interrupt a running query.
func (l *Locks) sample(ctx context.Context, conn *pgx.Conn) error {
	for load.Pause(ctx, sampleInterval) == nil {
		var seconds float64
		var what string
		row := conn.QueryRow(context.WithoutCancel(ctx), `
			SELECT extract(epoch FROM clock_timestamp() - l.waitstart)::float8,
				l.locktype || ' in ' || left(regexp_replace(a.query, '\s+', ' ', 'g'), 60)
			FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT l.granted AND l.waitstart IS NOT NULL AND a.datname = current_database()
			ORDER BY l.waitstart
			LIMIT 1`)
		if err := row.Scan(&seconds, &what); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("reading the waits for locks: %w", err)
		}
		l.Samples++
		if seconds*1000 > l.LongestMS {
			l.LongestMS, l.Longest = seconds*1000, what
		}
		if seconds > longWait.Seconds() {
			l.Long++
		}
	}
	return nil
}

// deadlocks returns the number of deadlocks of the database so far. The statistics of Postgres may be 1 s old.
func deadlocks(ctx context.Context, conn *pgx.Conn) (n int64, err error) {
	row := conn.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the number of deadlocks: %w", err)
	}
	return n, nil
}

func (l *Locks) String() string {
	text := fmt.Sprintf("locks: %d deadlocks, %d of %d samples saw a wait of more than %d ms, the longest %.0f ms",
		l.Deadlocks, l.Long, l.Samples, longWait.Milliseconds(), l.LongestMS)
	if l.Longest != "" {
		text += fmt.Sprintf(" (%s)", l.Longest)
	}
	return text
}
