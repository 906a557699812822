package devdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
)

const (
	markerName  = "belfry-cluster"
	dataName    = "data"
	initPrefix  = "data.init-"
	logName     = "postgres.log"
	oldLogName  = "postgres.log.old"
	initTimeout = 2 * time.Minute
)

const markerText = `This folder holds a private Postgres cluster made by Belfry.
Stop its owner before you remove it; "belfry dev --fresh" starts it over.
`

// openFolder creates dir when it is missing, refuses a folder with other content, and takes
// the lock. The returned path is absolute and has no symbolic links, so that it can be
// compared with the data_directory of a running Postgres.
func openFolder(dir string) (string, *lock, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("finding the cluster folder %s: %w", dir, err)
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755 // the account of Postgres must enter it
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", nil, fmt.Errorf("creating the cluster folder: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, fmt.Errorf("finding the cluster folder: %w", err)
	}
	if err := checkFolder(dir); err != nil {
		return "", nil, err
	}
	l, err := acquire(dir)
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, markerName), []byte(markerText), 0o644); err != nil {
		return "", nil, errors.Join(fmt.Errorf("marking the cluster folder: %w", err), l.release())
	}
	return dir, l, nil
}

// checkFolder returns an error unless dir is empty or has the marker file.
func checkFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the cluster folder: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == markerName {
			return nil
		}
	}
	for _, entry := range entries {
		if entry.Name() != lockName { // a concurrent Start creates the lock before the marker
			return fmt.Errorf("the folder %s is not empty and was not made by Belfry (there is %s in it): "+
				"choose another folder for the cluster, or empty it yourself", dir, entry.Name())
		}
	}
	return nil
}

// prepare keeps an existing cluster of the right version in the folder, or creates a new cluster.
func (c *Cluster) prepare(ctx context.Context, fresh bool) error {
	leftovers, err := filepath.Glob(filepath.Join(c.dir, initPrefix+"*"))
	if err != nil {
		return fmt.Errorf("looking for leftovers in %s: %w", c.dir, err)
	}
	if fresh {
		leftovers = append(leftovers, c.data())
	}
	for _, path := range leftovers {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the old cluster: %w", err)
		}
	}
	have, err := majorVersion(ctx, c.binDir, c.dir, c.account)
	if err != nil {
		return c.account.explain(err, c.dir, c.binDir)
	}
	kept, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return c.initialize(ctx)
	}
	if err != nil {
		return fmt.Errorf("reading the version of the existing cluster: %w", err)
	}
	if made := strings.TrimSpace(string(kept)); made != have {
		return fmt.Errorf("the cluster in %s was made by Postgres %s, and the programs in %s are Postgres %s: "+
			"set %s to the folder of Postgres %s, or start over with --fresh, which loses the data",
			c.dir, made, c.binDir, have, binDirVariable, made)
	}
	return nil
}

// initialize creates the data folder under another name and renames it when it is complete. So a crash leaves no incomplete
// cluster.
func (c *Cluster) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	dir := filepath.Join(c.dir, fmt.Sprintf("%s%d", initPrefix, os.Getpid()))
	if err := c.account.mkdir(dir); err != nil {
		return fmt.Errorf("creating the data folder: %w", err)
	}
	args := []string{"-D", dir, "-U", superuser, "--auth=trust", "--encoding=UTF8", "--no-locale"}
	if c.cfg.Settings["fsync"] == "off" { // the data need not survive a power cut
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.binDir, "initdb"), args...)
	cmd.Dir = c.dir
	cmd.Env = childEnv()
	cmd.SysProcAttr = c.account.processAttributes()
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return errors.Join(fmt.Errorf("creating a cluster in %s: %w\n%s", c.dir, err, tail(out)), os.RemoveAll(dir))
	}
	if err := os.Rename(dir, c.data()); err != nil {
		return fmt.Errorf("putting the new cluster in place: %w", err)
	}
	return nil
}

// childEnv returns the environment without the variables that change the behaviour or the
// language of Postgres.
func childEnv() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PG") && name != "LC_ALL" && name != "TZ" {
			env = append(env, entry)
		}
	}
	return env
}

// Remove deletes a cluster folder without an owner, for example after its owner died. It first stops a Postgres that still runs
// in the folder. It returns an *InUseError if a live process owns the folder, and an error if the folder has no marker file.
func Remove(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, markerName)); err != nil {
		return fmt.Errorf("removing the cluster in %s: %w", dir, err)
	}
	dir, l, err := openFolder(dir)
	if err != nil {
		return err
	}
	err = stopOrphan(ctx, filepath.Join(dir, dataName), zap.NewNop())
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		err = fmt.Errorf("removing the cluster in %s: %w", dir, err)
	}
	return errors.Join(err, l.release())
}
