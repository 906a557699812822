package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

const (
	dirPrefix   = "belfry-pgtest-"
	clusterName = "cluster"
)

// settings make tests fast. After a kill, Postgres has the same data as in production, because synchronous_commit stays on.
// Only a power failure or a crash of the machine would lose data.
func settings() map[string]string {
	return map[string]string{
		"fsync":                    "off",
		"full_page_writes":         "off",
		"synchronous_commit":       "on",
		"max_connections":          "1000", // each Belfry server opens up to 30, and many servers run at the same time
		"shared_preload_libraries": "",
	}
}

// startCluster starts a copy of a template in a new temporary folder that the account of Postgres can enter. It first
// removes the folders of killed test processes. without names settings that it leaves out.
func startCluster(ctx context.Context, of template, without ...string) (*devdb.Cluster, error) {
	for _, folder := range []string{memory, os.TempDir()} {
		if err := sweep(ctx, folder); err != nil {
			return nil, err
		}
	}
	parent, err := newParent()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(parent, clusterName)
	if err := of.copy(ctx, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(parent))
	}
	with := settings()
	for _, name := range without {
		delete(with, name)
	}
	cluster, err := devdb.Start(ctx, devdb.Config{Dir: dir, Settings: with})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(parent))
	}
	return cluster, nil
}

const (
	memory = "/dev/shm"
	// memoryRoom is the free memory in bytes that home requires. All clusters of a run together need much less.
	memoryRoom = 6 << 30
)

// home is the folder for clusters. It is in memory if there is enough free memory. A test creates and removes hundreds of
// files for its database. On some file systems this takes more processor time than the test.
func home() string {
	var files syscall.Statfs_t
	if runtime.GOOS == "linux" && syscall.Statfs(memory, &files) == nil && files.Bavail*uint64(files.Bsize) >= memoryRoom {
		return memory
	}
	return os.TempDir()
}

// newParent makes a folder for a cluster of this process. The account of Postgres can enter the folder.
func newParent() (string, error) {
	parent, err := os.MkdirTemp(home(), fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("making a folder for Postgres: %w", err)
	}
	if err := os.Chmod(parent, 0o755); err != nil {
		return "", errors.Join(fmt.Errorf("opening the folder for Postgres: %w", err), os.RemoveAll(parent))
	}
	return parent, nil
}

func removeCluster(cluster *devdb.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(cluster.Stop(ctx), os.RemoveAll(filepath.Dir(cluster.Dir())))
}

// sweep removes the folders of killed test processes. A test process that exceeds its time limit does not clean up.
func sweep(ctx context.Context, tmp string) error {
	dirs, err := filepath.Glob(filepath.Join(tmp, dirPrefix+"*", clusterName))
	if err != nil {
		return fmt.Errorf("looking for folders of killed tests: %w", err)
	}
	for _, dir := range dirs {
		// A running test may have stopped its server for a while, so its folder stays. If Remove fails, the folder belongs
		// to another user, or another process is removing it.
		if ownerLives(filepath.Base(filepath.Dir(dir))) || devdb.Remove(ctx, dir) != nil {
			continue
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			return fmt.Errorf("removing the folder of a killed test: %w", err)
		}
	}
	return nil
}

// ownerLives reports whether the process whose id is in a folder's name is running. It returns true for other names.
func ownerLives(name string) bool {
	number, _, _ := strings.Cut(strings.TrimPrefix(name, dirPrefix), "-")
	pid, err := strconv.Atoi(number)
	return err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
