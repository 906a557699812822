//go:build installed

package integration_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// TestRestore dumps a database and restores it into a new cluster, as README.md describes. Cursors and leases must
// continue, the rows of the inbox must be moved, attached tables must send messages, and roles must have their rights. The
// test needs pg_dump and psql (`make restore`). Belfry does not need them.
func TestRestore(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.client(t)
	c.pushIDs("q", "read", "1", "2", "3")
	first := c.pop("q", "consumerGroup=g&batch=1").ok(http.StatusOK)
	require.True(t, c.ackBatch("g", first.ack("completed", 0)...).ok(http.StatusOK)[0].Success)
	c.pushIDs("q", "leased", "4")
	require.Equal(t, []string{"4"}, c.popPartition("q", "leased", "consumerGroup=g").ok(http.StatusOK).ids())
	app := producer(t, s.dsn)
	execute(t, app, `CREATE TABLE orders (id int PRIMARY KEY)`)
	execute(t, app, `SELECT belfry.attach('orders', 'changes', key => '{id}')`)
	require.NoError(t, s.stop(t))
	execute(t, app, `INSERT INTO belfry.inbox (queue, partition, transaction_id, payload) VALUES ('q', 'inbox', '5', '1'), ('q', 'inbox', '6', '1')`)
	execute(t, app, `INSERT INTO orders VALUES (7)`)

	cluster := pgtest.OwnCluster(t)
	require.NoError(t, cluster.CreateDatabase(t.Context(), "restored"))
	dsn := cluster.URL("restored")
	restore(t, s.dsn, dsn)
	owner := producer(t, dsn)
	rows, err := owner.Query(t.Context(), `SELECT belfry.role_sql()`)
	require.NoError(t, err)
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, statement := range statements {
		execute(t, owner, statement)
	}

	restored := startOn(t, dsn).client(t)
	require.Equal(t, []string{"2", "3"}, restored.popPartition("q", "read", "consumerGroup=g&batch=10").ok(http.StatusOK).ids())
	require.Equal(t, http.StatusNoContent, restored.popPartition("q", "leased", "consumerGroup=g").Status, "the lease must continue after the restore")
	require.Equal(t, []string{"5", "6"}, restored.popPartition("q", "inbox", "consumerGroup=g&batch=10&wait=true&timeout=20000").ok(http.StatusOK).ids())

	execute(t, owner, `SET ROLE belfry_producer`)
	execute(t, owner, `INSERT INTO belfry.inbox (queue, partition, transaction_id, payload) VALUES ('q', 'new', '8', '1')`)
	execute(t, owner, `RESET ROLE`)
	require.Equal(t, []string{"8"}, restored.popPartition("q", "new", "consumerGroup=g&wait=true&timeout=20000").ok(http.StatusOK).ids())
	execute(t, owner, `INSERT INTO orders VALUES (9)`)
	for _, id := range []string{"7", "9"} {
		changed := restored.popPartition("changes", id, "wait=true&timeout=20000").ok(http.StatusOK)
		require.Contains(t, string(changed.Messages[0].Data), id)
	}
	execute(t, owner, `SET ROLE belfry_consumer`)
	var popped int
	require.NoError(t, owner.QueryRow(t.Context(), `SELECT count(*) FROM belfry.pop('q', 'sql', 10, partitions => 10)`).Scan(&popped))
	require.Equal(t, 7, popped)
}

// restore copies the database source into the empty database target. It allows only errors about grants to missing roles.
func restore(t *testing.T, source, target string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump.sql")
	run(t, "pg_dump", "--file", file, "--dbname", source)
	for line := range strings.Lines(run(t, "psql", "--no-psqlrc", "--quiet", "--file", file, "--dbname", target)) {
		require.Regexp(t, `ERROR:  role "belfry_(producer|consumer|admin)" does not exist`, line)
	}
}

// TestRestoreInPlace restores a dump over the tables while two servers run. The sequencer must move a row of the inbox in
// the dump, although its transaction id (xid) is old.
func TestRestoreInPlace(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	app := producer(t, dsn)
	execute(t, app, `INSERT INTO belfry.inbox (queue, payload) VALUES ('kept', '1')`)
	file := filepath.Join(t.TempDir(), "dump")
	run(t, "pg_dump", "--format", "custom", "--file", file, "--dbname", dsn)
	survivesReplacement(t, dsn, func() {
		until(t, "the restore succeeds without a deadlock", func() bool {
			complaints, err := attempt(t, "pg_restore", "--clean", "--single-transaction", "--dbname", dsn, file)
			if err != nil {
				require.Contains(t, complaints, "deadlock detected")
			}
			return err == nil
		})
	})
	until(t, "the sequencer has moved the row of the dump", func() bool {
		var rows int
		require.NoError(t, app.QueryRow(t.Context(), `SELECT count(*) FROM belfry.inbox`).Scan(&rows))
		return rows == 0
	})
}

// run runs a program of Postgres and returns its standard error.
func run(t *testing.T, program string, args ...string) (complaints string) {
	t.Helper()
	complaints, err := attempt(t, program, args...)
	require.NoError(t, err, "%s: %s", program, complaints)
	return complaints
}

// attempt runs a program of Postgres that may fail. It returns the standard error and the error.
func attempt(t *testing.T, program string, args ...string) (complaints string, err error) {
	t.Helper()
	dir, err := devdb.FindBinaries(t.Context(), zap.NewNop())
	require.NoError(t, err)
	path := filepath.Join(dir, program)
	if _, err := os.Stat(path); err != nil {
		path, err = exec.LookPath(program)
		require.NoError(t, err, "%s is missing: install it (Debian: apt-get install postgresql-client)", program)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	return stderr.String(), err
}
