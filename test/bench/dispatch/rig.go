package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/devdb"
)

// stopPatience bounds the orderly end of Postgres and of a server.
const stopPatience = time.Minute

// rig is what all measures stand on: a private Postgres, the server's binary,
// and a connection of its own to the statistics of Postgres.
type rig struct {
	settings
	dir     string
	binary  string
	cluster *devdb.Cluster
	admin   *pgx.Conn
	// databases and started count what has been made, for names.
	databases, started int
}

func newRig(ctx context.Context, s settings) (r *rig, err error) {
	dir, err := os.MkdirTemp("", "belfry-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	r = &rig{settings: s, dir: dir, binary: filepath.Join(dir, "belfry")}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	// As root, Postgres runs under another account, which must get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("opening the folder: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", r.binary, "github.com/belfry-mq/belfry/cmd/belfry")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the server (run this from within the repository): %w\n%s", err, text)
	}
	r.cluster, err = devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "cluster"), Log: zap.NewNop(), Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "8GB", "max_connections": "300",
		"shared_preload_libraries": "pg_stat_statements",
	}})
	if err != nil {
		return nil, err
	}
	if r.admin, err = pgx.Connect(ctx, r.cluster.URL("postgres")); err != nil {
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	if _, err := r.admin.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
		return nil, fmt.Errorf("making the extension pg_stat_statements (install the contrib programs of Postgres): %w", err)
	}
	return r, nil
}

// close stops Postgres and removes the folder.
func (r *rig) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	var errs []error
	if r.admin != nil {
		errs = append(errs, r.admin.Close(ctx))
	}
	if r.cluster != nil {
		errs = append(errs, r.cluster.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// database makes an empty database and returns its name.
func (r *rig) database(ctx context.Context) (string, error) {
	r.databases++
	name := fmt.Sprintf("bench_%d", r.databases)
	return name, r.cluster.CreateDatabase(ctx, name)
}

// serve starts n instances on a database and returns once all of them answer
// and hear each other. The caller must stop them.
func (r *rig) serve(ctx context.Context, database string, n int) (instances, error) {
	var all instances
	for range n {
		in, err := r.startInstance(ctx, database)
		if err != nil {
			return nil, errors.Join(err, all.stop())
		}
		all = append(all, in)
	}
	return all, nil
}

// alone starts n instances on a database of their own.
func (r *rig) alone(ctx context.Context, n int) (instances, string, error) {
	database, err := r.database(ctx)
	if err != nil {
		return nil, "", err
	}
	all, err := r.serve(ctx, database, n)
	return all, database, err
}
