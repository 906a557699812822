package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sampleInterval is the time between two looks at the waits for locks.
	sampleInterval = 50 * time.Millisecond
	// longWait is the wait for a lock that counts as long.
	longWait = 100 * time.Millisecond
)

// Locks describes the waits for locks in a database during a run.
type Locks struct {
	// Samples is the number of looks at heavyweight locks, LongestMS the longest wait.
	Samples   int     `json:"samples"`
	LongestMS float64 `json:"longestMs"`
	// Longest describes the longest wait: the type of the lock and the beginning of the statement.
	Longest string `json:"longest,omitempty"`
	// Long counts the samples with a wait of more than longWait.
	Long      int   `json:"long"`
	Deadlocks int64 `json:"deadlocks"`
}

// watchLocks samples the database at url until the returned function is called. With hold it also
// keeps a snapshot open for that time.
func watchLocks(ctx context.Context, url string, hold bool) (end func() (*Locks, error), err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	conns := make([]*pgx.Conn, 0, 2)
	release := func() error {
		cancel()
		var err error
		for _, conn := range conns {
			err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		}
		return err
	}
	for range cap(conns) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connecting to watch the database: %w", err), release())
		}
		conns = append(conns, conn)
	}
	if hold {
		// The first statement takes the snapshot.
		if _, err := conns[1].Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); err != nil {
			return nil, errors.Join(fmt.Errorf("holding a snapshot: %w", err), release())
		}
	}
	seen := &Locks{}
	before, err := deadlocks(ctx, conns[0])
	if err != nil {
		return nil, errors.Join(err, release())
	}
	stopped, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- seen.sample(ctx, conns[0], stopped) }()
	return func() (*Locks, error) {
		close(stopped)
		if err := errors.Join(<-ended, release()); err != nil {
			return nil, err
		}
		seen.Deadlocks -= before
		return seen, nil
	}, nil
}

func (l *Locks) sample(ctx context.Context, conn *pgx.Conn, stopped <-chan struct{}) error {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-stopped:
			var err error
			l.Deadlocks, err = deadlocks(ctx, conn)
			return err
		case <-tick.C:
		}
		var seconds float64
		var what string
		row := conn.QueryRow(ctx, `SELECT extract(epoch FROM clock_timestamp() - l.waitstart)::float8,
				l.locktype || ' in ' || left(regexp_replace(a.query, '\s+', ' ', 'g'), 60)
			FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT l.granted AND l.waitstart IS NOT NULL AND a.datname = current_database()
			ORDER BY l.waitstart
			LIMIT 1`)
		if err := row.Scan(&seconds, &what); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("looking for waits: %w", err)
		}
		l.Samples++
		if seconds*1000 > l.LongestMS {
			l.LongestMS, l.Longest = seconds*1000, what
		}
		if seconds > longWait.Seconds() {
			l.Long++
		}
	}
}

// deadlocks returns the number of deadlocks of the database so far. The statistics may be a second
// old.
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
