package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

// startLook is the pause between two attempts to connect, and between two checks for a standby. Postgres does not announce
// its start.
const startLook = 20 * time.Millisecond

// Follow copies the running primary to standby and starts the copy as a synchronous standby. When Follow returns, every
// commit of primary waits for standby. The old data of standby is lost. If pg_wal of standby is a link, it stays a link. If
// Follow returns an error, primary does not wait for a standby.
func Follow(ctx context.Context, primary, standby *devdb.Cluster) (err error) {
	if err := standby.Stop(ctx); err != nil {
		return err
	}
	owner, err := ownerOf(dataOf(primary))
	if err != nil {
		return err
	}
	if err := makeRoom(dataOf(standby), owner); err != nil {
		return fmt.Errorf("making room for a standby: %w", err)
	}
	copying, err := beginCopy(ctx, primary)
	if err != nil {
		return err
	}
	defer copying.close(ctx)
	if err := copyData(dataOf(primary), dataOf(standby), owner); err != nil {
		return err
	}
	if err := copying.finish(ctx, primary, dataOf(standby), owner); err != nil {
		return err
	}
	if err := standby.Restart(ctx); err != nil {
		return fmt.Errorf("starting the standby: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, onServer(context.WithoutCancel(ctx), primary, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"))
		}
	}()
	err = onServer(ctx, primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	if err != nil {
		return err
	}
	if err := awaitSynchronous(ctx, primary); err != nil {
		return err
	}
	// The checkpointer makes the commits of all sessions wait for the standby. It reads the new settings before a
	// checkpoint.
	return onServer(ctx, primary, "CHECKPOINT")
}

// Forsake makes primary stop waiting for its standby, and disconnects the standby. If the standby is promoted later,
// commits after Forsake are lost.
func Forsake(ctx context.Context, primary, standby *devdb.Cluster) error {
	err := onServer(ctx, primary, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	if err != nil {
		return err
	}
	return onServer(ctx, standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
}

// Promote makes a standby a primary that waits for no standby. The old primary must have stopped.
func Promote(ctx context.Context, standby *devdb.Cluster) error {
	return onServer(ctx, standby, "SELECT pg_promote()", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
}

func awaitSynchronous(ctx context.Context, primary *devdb.Cluster) error {
	conn, err := connectTo(ctx, primary)
	if err != nil {
		return fmt.Errorf("waiting for the standby: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the session only read, so an error loses nothing
	ticker := time.NewTicker(startLook)
	defer ticker.Stop()
	for {
		var synchronous bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&synchronous)
		if err != nil {
			return fmt.Errorf("waiting for the standby: %w", err)
		}
		if synchronous {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the standby: %w", ctx.Err())
		}
	}
}

// onServer runs statements, each in its own transaction.
func onServer(ctx context.Context, cluster *devdb.Cluster, statements ...string) error {
	conn, err := connectTo(ctx, cluster)
	if err != nil {
		return fmt.Errorf("connecting to run %q: %w", statements[0], err)
	}
	defer func() { _ = conn.Close(ctx) }() // the statements are done or have failed
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("running %q: %w", statement, err)
		}
	}
	return nil
}

// tooManyConnections is the SQLSTATE of a server without free connections.
const tooManyConnections = "53300"

// connectTo connects to a server. If all connections are in use, it tries again until one is free.
func connectTo(ctx context.Context, cluster *devdb.Cluster) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, cluster.URL("postgres"))
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != tooManyConnections {
			return conn, err
		}
		timer := time.NewTimer(startLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

func dataOf(cluster *devdb.Cluster) string { return filepath.Join(cluster.Dir(), "data") }

func ownerOf(dir string) (*syscall.Stat_t, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the owner of the data folder: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("finding the owner of the data folder: %s has no owner", dir)
	}
	return owner, nil
}

// makeRoom leaves an empty data folder with an empty pg_wal. If pg_wal was a link, it stays a link.
func makeRoom(data string, owner *syscall.Stat_t) error {
	place := filepath.Join(data, "pg_wal")
	wal, err := os.Readlink(place)
	linked := err == nil
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) { // a folder, or missing
		return err
	}
	if err := errors.Join(os.RemoveAll(data), newFolder(data, owner)); err != nil {
		return err
	}
	if !linked {
		return newFolder(place, owner)
	}
	return errors.Join(os.RemoveAll(wal), newFolder(wal, owner), os.Symlink(wal, place), os.Lchown(place, int(owner.Uid), int(owner.Gid)))
}
