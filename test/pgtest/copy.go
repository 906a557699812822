package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

// Postgres 15 renamed the functions that start and stop a backup.
const renamedIn = 150000

// emptied are the folders whose content is not copied. Their content belongs to the running server. The content of pg_wal
// is streamed later.
var emptied = []string{
	"pg_dynshmem", "pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans", "pg_wal",
}

// copying is a copy of a running server in progress. While its session is open, the primary keeps the WAL from the start of
// the copy.
type copying struct {
	conn *pgx.Conn
	stop string
}

// beginCopy begins a backup of primary. Files that are copied from then on are usable, even if Postgres writes to them
// during the copy. The caller must close the copying.
func beginCopy(ctx context.Context, primary *devdb.Cluster) (_ *copying, err error) {
	conn, err := connectTo(ctx, primary)
	if err != nil {
		return nil, fmt.Errorf("beginning a copy: %w", err)
	}
	c := &copying{conn: conn}
	defer func() {
		if err != nil {
			c.close(ctx)
		}
	}()
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::integer").Scan(&version); err != nil {
		return nil, fmt.Errorf("beginning a copy: %w", err)
	}
	start := "SELECT pg_backup_start('standby', true)"
	c.stop = "SELECT labelfile FROM pg_backup_stop(false)"
	if version < renamedIn {
		start, c.stop = "SELECT pg_start_backup('standby', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	for _, statement := range []string{"SELECT pg_create_physical_replication_slot('standby_' || pg_backend_pid(), true, true)", start} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("beginning a copy: running %q: %w", statement, err)
		}
	}
	return c, nil
}

// finish configures the folder as a standby of primary. It does not start the standby.
func (c *copying) finish(ctx context.Context, primary *devdb.Cluster, folder string, owner *syscall.Stat_t) error {
	var label string
	if err := c.conn.QueryRow(ctx, c.stop).Scan(&label); err != nil {
		return fmt.Errorf("finishing a copy: %w", err)
	}
	settings := filepath.Join(folder, "postgresql.auto.conf")
	before, err := os.ReadFile(settings)
	if err != nil {
		return fmt.Errorf("finishing a copy: %w", err)
	}
	follow := fmt.Sprintf("%s\nprimary_conninfo = '%s'\n", before, primary.URL("postgres"))
	for name, content := range map[string]string{settings: follow, filepath.Join(folder, "backup_label"): label, filepath.Join(folder, "standby.signal"): ""} {
		if err := errors.Join(os.WriteFile(name, []byte(content), 0o600), os.Chown(name, int(owner.Uid), int(owner.Gid))); err != nil {
			return fmt.Errorf("finishing a copy: %w", err)
		}
	}
	return nil
}

// close releases the WAL that the primary kept for the copy.
func (c *copying) close(ctx context.Context) { _ = c.conn.Close(context.WithoutCancel(ctx)) }

// copyData copies the data folder of a running server into an empty folder.
func copyData(from, to string, owner *syscall.Stat_t) error {
	const control = "global/pg_control" // copied last
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed during the copy
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil || name == "." || name == control || name == "postmaster.pid" || name == "postmaster.opts":
			return err
		case strings.HasPrefix(entry.Name(), "pgsql_tmp") || entry.Name() == "pg_internal.init":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case slices.Contains(emptied, name):
			if name != "pg_wal" { // the caller has created it, maybe as a link
				err = newFolder(filepath.Join(to, name), owner)
			}
			if err == nil && entry.IsDir() {
				err = fs.SkipDir
			}
			return err
		case entry.IsDir():
			return newFolder(filepath.Join(to, name), owner)
		default:
			return copyFile(path, filepath.Join(to, name), owner)
		}
	})
	if err == nil {
		err = copyFile(filepath.Join(from, control), filepath.Join(to, control), owner)
	}
	if err != nil {
		return fmt.Errorf("copying the files of the primary: %w", err)
	}
	return nil
}

func newFolder(dir string, owner *syscall.Stat_t) error {
	return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, int(owner.Uid), int(owner.Gid)))
}

// copyFile copies a file. If the file was removed meanwhile, it copies nothing.
func copyFile(from, to string, owner *syscall.Stat_t) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // the file was only read, so an error loses nothing
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chown(int(owner.Uid), int(owner.Gid)), out.Close())
}
