package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// poolName and listenName are the application names of the connections of the servers.
	poolName   = "belfry"
	listenName = "belfry-listen"
	// missingStandby is the name of a standby that does not exist. stallCommits makes commits wait for it.
	missingStandby = "nobody"
	// adminPatience is the timeout of administrative statements.
	adminPatience = 5 * time.Second
)

func databaseFaults() []Fault {
	return []Fault{
		{Name: "end-sessions", run: endSessions},
		{Name: "end-listeners", run: endListeners},
		{Name: "end-sequencer", run: endSequencer},
		{Name: "stall-commits", run: stallCommits},
		{Name: "hold-snapshot", run: holdSnapshot},
		{Name: "exhaust-connections", run: exhaustConnections},
		{Name: fillsDisk, run: fillDisk, obstacle: cannotMount},
		{Name: failsOver, run: failOver},
		{Name: stopsStandby, run: stopSynchronousStandby},
	}
}

// endSessions ends random database sessions of the servers, one after the other.
func endSessions(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	times, ended := 1+choose.IntN(15), 0
	for range times {
		n, err := w.terminate(ctx, poolName, 1, choose)
		if err != nil {
			return "", err
		}
		ended += n
		if !Pause(ctx, between(choose, 0, 300*time.Millisecond)) {
			break
		}
	}
	return fmt.Sprintf("%d sessions", ended), nil
}

// endListeners ends the LISTEN sessions of all servers at once.
func endListeners(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	n, err := w.terminate(ctx, listenName, maxConnections, choose)
	return fmt.Sprintf("%d sessions", n), err
}

// terminate ends up to most sessions with an application name. It ends no session while another fault makes Postgres
// unavailable.
func (w *World) terminate(ctx context.Context, name string, most int, choose *rand.Rand) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminPatience)
	defer cancel()
	rows, err := w.admin.Query(ctx, `SELECT pid FROM pg_stat_activity
		WHERE datname = $1 AND application_name = $2 ORDER BY pid`, databaseName, name)
	var pids []int32
	if err == nil {
		pids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
	}
	if err != nil {
		return 0, w.ignoreUnavailable(err)
	}
	choose.Shuffle(len(pids), func(i, j int) { pids[i], pids[j] = pids[j], pids[i] })
	pids = pids[:min(most, len(pids))]
	if _, err := w.admin.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid`, pids); err != nil {
		return 0, w.ignoreUnavailable(err)
	}
	return len(pids), nil
}

// ignoreUnavailable returns nil for an error that another fault can cause: Postgres is down, or accepts no
// connections.
func (w *World) ignoreUnavailable(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || pgconn.Timeout(err) {
		return nil
	}
	switch refused.Code {
	case "57P01", "57P02", "57P03", "53300":
		return nil
	}
	return err
}

// stallCommits makes every COMMIT wait while it holds its locks, as with a disk that does not respond: Postgres waits
// for a standby that does not exist.
func stallCommits(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	// Postgres must stay up, because otherwise the setting could not be reset.
	w.postgres.Lock()
	defer w.postgres.Unlock()
	d := hold(choose)
	if err := w.set(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+missingStandby+"'"); err != nil {
		return "", err
	}
	Pause(ctx, d)
	return d.String(), w.set(ctx, "ALTER SYSTEM RESET synchronous_standby_names")
}

// set changes a setting of the running Postgres.
func (w *World) set(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterPatience)
	defer cancel()
	// A new connection is used, because a connection of the pool may belong to an earlier Postgres process.
	conn, err := w.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statements have succeeded or failed
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("running %q: %w", statement, err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return fmt.Errorf("reloading the settings: %w", err)
	}
	return nil
}

// connect opens a connection. It retries until ctx ends.
func (w *World) connect(ctx context.Context) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, w.dsn())
		if err == nil {
			return conn, nil
		}
		if !Pause(ctx, recoveryPause) {
			return nil, fmt.Errorf("connecting to Postgres: %w", err)
		}
	}
}

// holdSnapshot keeps a snapshot open. Meanwhile vacuum cannot remove rows that were deleted after it was taken.
func holdSnapshot(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	d := hold(choose) + longestHold
	tx, err := w.admin.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return "", w.ignoreUnavailable(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // the transaction only reads
	if _, err := tx.Exec(ctx, "SELECT count(*) FROM pg_class"); err != nil {
		return "", w.ignoreUnavailable(err)
	}
	Pause(ctx, d)
	return d.String(), nil
}

// exhaustConnections opens all free connections. It also ends sessions of the servers and takes their connections.
func exhaustConnections(ctx context.Context, w *World, choose *rand.Rand) (string, error) {
	d := hold(choose)
	until := time.Now().Add(d)
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(context.WithoutCancel(ctx)) // Postgres may have closed it
		}
	}()
	for time.Now().Before(until) && ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, adminPatience)
		conn, err := pgx.Connect(attempt, w.dsn())
		cancel()
		if err == nil {
			taken = append(taken, conn)
			continue
		}
		if _, err := w.terminate(ctx, poolName, 1, choose); err != nil {
			return "", err
		}
		Pause(ctx, recoveryPause)
	}
	return fmt.Sprintf("%d connections were taken for %s", len(taken), d), nil
}
