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

	"github.com/belfry-mq/belfry/pkg/devdb"
)

// startLook is the pause between two looks at what starts or connects; Postgres
// tells nobody when it is there.
const startLook = 20 * time.Millisecond

// Follow makes standby a copy of primary, which runs on meanwhile, and starts it
// as its synchronous standby: when Follow returns, primary commits nothing that
// standby does not have. What was in standby is lost. WAL that standby keeps
// elsewhere, by a link, stays there. After an error primary waits for nobody.
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
	// The checkpointer tells the sessions that commits wait from now on. It reads
	// the settings before it obeys.
	return onServer(ctx, primary, "CHECKPOINT")
}

// Forsake makes the primary wait for nobody, and its standby receive nothing more:
// what is committed from now on is lost when the standby is promoted.
func Forsake(ctx context.Context, primary, standby *devdb.Cluster) error {
	err := onServer(ctx, primary, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	if err != nil {
		return err
	}
	return onServer(ctx, standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
}

// Promote makes a standby a primary that waits for nobody. Its old primary must
// be gone.
func Promote(ctx context.Context, standby *devdb.Cluster) error {
	return onServer(ctx, standby, "SELECT pg_promote()", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
}

func awaitSynchronous(ctx context.Context, primary *devdb.Cluster) error {
	conn, err := connectTo(ctx, primary)
	if err != nil {
		return fmt.Errorf("waiting for the standby: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // it has read, that is all
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

// onServer runs statements, each for itself.
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

// tooManyConnections is the SQLSTATE of a server that has no connection left.
const tooManyConnections = "53300"

// connectTo waits for a free connection: the server may be in the middle of a load
// that takes them all.
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
		return nil, fmt.Errorf("finding whose Postgres it is: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("finding whose Postgres it is: %s does not say", dir)
	}
	return owner, nil
}

// makeRoom leaves a data folder of that owner that holds nothing but the place of
// the WAL, empty too.
func makeRoom(data string, owner *syscall.Stat_t) error {
	place := filepath.Join(data, "pg_wal")
	wal, err := os.Readlink(place)
	linked := err == nil
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) { // a folder, or none
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
