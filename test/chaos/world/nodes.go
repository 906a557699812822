package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/chaos/clock"
)

// startPostgres starts a Postgres. If a fault needs a standby, it also prepares a second Postgres. If a fault fills
// the disk, the WAL of both is on a volume.
func (w *World) startPostgres(ctx context.Context, faults []Fault) (err error) {
	// Without fsync, a killed Postgres loses nothing. Only a power failure would lose data.
	settings := map[string]string{
		"fsync": "off", "full_page_writes": "off",
		"synchronous_commit": "on", "max_connections": strconv.Itoa(maxConnections), "shared_preload_libraries": "",
		// This setting limits the delay of the promotion of a standby whose primary has died.
		"wal_retrieve_retry_interval": "100ms",
		// A client on a frozen network can connect while Postgres stops, and then send nothing. It delays the stop
		// for this time, because Postgres does not end such a session earlier.
		"authentication_timeout": "5s",
	}
	// The account of Postgres must be able to enter the folder.
	home := filepath.Join(w.dir, "cluster")
	if err := os.Mkdir(home, 0o755); err != nil {
		return fmt.Errorf("making a folder for Postgres: %w", err)
	}
	if wants(faults, fillsDisk) {
		if w.volume, err = mountVolume(ctx, filepath.Join(home, "volume")); err != nil {
			return err
		}
		// The volume is twice as large as the WAL, so only a fault fills it.
		settings["max_wal_size"], settings["min_wal_size"], settings["checkpoint_warning"] = "64MB", "32MB", "0"
	}
	var env []string
	if wants(faults, StepsDatabaseClock) {
		if w.databaseClock, err = clock.NewDatabase(ctx, home); err != nil {
			return err
		}
		env = w.databaseClock.Env()
	}
	count := 1
	if slices.ContainsFunc(replicating, func(name string) bool { return wants(faults, name) }) {
		count = 2
	}
	for i := range count {
		name := fmt.Sprintf("node-%d", i+1)
		node, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(home, name), Log: zap.NewNop(), Settings: settings, Env: env})
		if err != nil {
			return fmt.Errorf("starting Postgres: %w", err)
		}
		w.nodes = append(w.nodes, node)
		if w.volume != nil || i > 0 {
			if err := node.Stop(ctx); err != nil {
				return fmt.Errorf("stopping Postgres to move its WAL: %w", err)
			}
		}
		if w.volume != nil {
			if err := moveWAL(ctx, node, filepath.Join(w.volume.dir, name)); err != nil {
				return err
			}
			if i == 0 {
				if err := node.Restart(ctx); err != nil {
					return fmt.Errorf("starting Postgres with its WAL elsewhere: %w", err)
				}
			}
		}
	}
	if err := w.primary().CreateDatabase(ctx, databaseName); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	return nil
}

// stopPostgres stops the nodes and unmounts the volume. It also works after a failed start.
func (w *World) stopPostgres(ctx context.Context) error {
	var errs []error
	for _, node := range w.nodes {
		errs = append(errs, node.Stop(ctx))
	}
	if w.volume != nil {
		errs = append(errs, w.volume.unmount(ctx))
	}
	if w.databaseClock != nil {
		errs = append(errs, w.databaseClock.Close())
	}
	return errors.Join(errs...)
}

// primary returns the Postgres that accepts commits. The caller holds w.postgres.
func (w *World) primary() *devdb.Cluster { return w.nodes[w.leading] }

// dsn returns a connection string for the Postgres that accepts commits. It bypasses the unreliable network.
func (w *World) dsn() string { return dsn(w.addresses()) }

func (w *World) addresses() []string {
	addresses := make([]string, len(w.nodes))
	for i, node := range w.nodes {
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(node.Port()))
	}
	return addresses
}

// dsn returns a connection string for the address among addresses that accepts commits.
func dsn(addresses []string) string {
	text := "postgres://postgres@" + strings.Join(addresses, ",") + "/" + databaseName + "?sslmode=disable"
	if len(addresses) > 1 {
		text += "&target_session_attrs=read-write"
	}
	return text
}

// moveWAL moves the WAL of a stopped Postgres to dir.
func moveWAL(ctx context.Context, node *devdb.Cluster, dir string) error {
	wal := filepath.Join(node.Dir(), "data", "pg_wal")
	if output, err := exec.CommandContext(ctx, "cp", "-a", wal, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("moving the WAL: %w\n%s", err, output)
	}
	if err := errors.Join(os.RemoveAll(wal), os.Symlink(dir, wal)); err != nil {
		return fmt.Errorf("moving the WAL: %w", err)
	}
	return nil
}
