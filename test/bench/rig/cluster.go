package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

// clusterPatience limits the time of an orderly stop of Postgres.
const clusterPatience = time.Minute

// Cluster is a private Postgres with its own folder.
type Cluster struct {
	*devdb.Cluster
	dir       string
	databases int
}

// StartCluster starts a Postgres with additional settings. The caller must close the cluster.
func StartCluster(ctx context.Context, settings map[string]string) (c *Cluster, err error) {
	dir, err := os.MkdirTemp("", "belfry-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	c = &Cluster{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	// If this process runs as root, Postgres runs under another account, which must be able to enter the folder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("opening the folder: %w", err)
	}
	c.Cluster, err = devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "cluster"), Log: zap.NewNop(), Settings: settings})
	return c, err
}

// Close stops Postgres and removes the folder. It waits at most a minute for Postgres.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	var err error
	if c.Cluster != nil {
		err = c.Stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// NewDatabase creates an empty database and returns its name.
func (c *Cluster) NewDatabase(ctx context.Context) (name string, err error) {
	c.databases++
	name = fmt.Sprint("bench_", c.databases)
	return name, c.CreateDatabase(ctx, name)
}

// Start starts n servers on a new database, with additional environment variables. The caller stops the servers.
func (c *Cluster) Start(ctx context.Context, n int, env ...string) (database string, servers []*Server, err error) {
	if database, err = c.NewDatabase(ctx); err != nil {
		return "", nil, err
	}
	for range n {
		server, err := StartServer(ctx, c.URL(database), env...)
		if err != nil {
			return "", nil, errors.Join(err, StopAll(servers))
		}
		servers = append(servers, server)
	}
	return database, servers, nil
}

// StopAll stops servers.
func StopAll(servers []*Server) error {
	var errs []error
	for _, server := range servers {
		errs = append(errs, server.Stop())
	}
	return errors.Join(errs...)
}

// ResetStatements resets the counts of pg_stat_statements for a database.
func ResetStatements(ctx context.Context, admin *pgx.Conn, database string) error {
	if _, err := admin.Exec(ctx, `SELECT pg_stat_statements_reset(0, d.oid, 0) FROM pg_database d WHERE d.datname = $1`, database); err != nil {
		return fmt.Errorf("resetting pg_stat_statements: %w", err)
	}
	return nil
}

// CountStatements creates the extension pg_stat_statements and returns a connection for reading its counts. The caller
// closes the connection. The settings of the cluster must load the extension.
func (c *Cluster) CountStatements(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	if _, err := conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
		err = fmt.Errorf("making the extension pg_stat_statements (install the contrib package of Postgres): %w", err)
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}
