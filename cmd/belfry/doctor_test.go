package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// The Postgres of the tests runs with fsync off. The doctor reports this setting as wrong.
func TestDoctorExaminesTheDatabase(t *testing.T) {
	dsn := pgtest.Database(t)
	code, out, stderr := belfry(t, "doctor", "--database-url", dsn)
	require.Equal(t, 1, code)
	require.Empty(t, stderr)
	require.Regexp(t, `^WRONG +lossy_settings +fsync is off`, out)
	require.Contains(t, out, "do:  ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();")
	require.Contains(t, out, "see: docs/runbook.md#lossy_settings")
	require.Regexp(t, `UNKNOWN +server +No server was examined: --database-url names a database.`, out)
	require.Contains(t, out, "Something is wrong: ")
	used, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`OK +database_connection +Connected to database %q at \S+:%d as role %q in `, used.Database, used.Port, used.User), out)

	code, out, _ = belfry(t, "doctor", "--database-url", dsn, "-o", "json")
	require.Equal(t, 1, code)
	var report api.Examination
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Checks, len(doctor.Codes()))
	require.EqualValues(t, 1, report.Wrong, out)

	// If the default server does not answer, the doctor examines the configured database. If a server named by the
	// user does not answer, the report has one more problem.
	t.Setenv("BELFRY_DATABASE_URL", dsn)
	for server, want := range map[string]int64{"http://localhost:1": 2, "": 1} {
		t.Setenv("BELFRY_SERVER", server)
		if server == "" {
			t.Setenv("HOME", t.TempDir()) // a folder without contexts
		}
		code, out, _ = belfry(t, "doctor", "-o", "json")
		require.Equal(t, 1, code)
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		require.Equal(t, want, report.Wrong, out)
	}
}

func TestDoctorWithoutAServerAndADatabase(t *testing.T) {
	t.Parallel()
	code, _, stderr := belfry(t, "doctor", "--server", "http://localhost:1", "--config", configFile(t, "log: {level: info}"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "localhost:1")
}

// The exit code for a warning is 1 only with --strict.
func TestDoctorWarns(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t, "fsync", "full_page_writes")
	require.NoError(t, cluster.CreateDatabase(t.Context(), "warned"))
	dsn := cluster.URL("warned")
	code, _, stderr := belfry(t, "migrate", "up", "--database-url", dsn)
	require.Zero(t, code, stderr)
	code, out, _ := belfry(t, "doctor", "--database-url", dsn, "--strict")
	require.Zero(t, code, out)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, inserted_at, code, reason) VALUES (1, 'q', 'p', '1', now(), 'invalid', 'no')`)
	require.NoError(t, err)
	code, out, _ = belfry(t, "doctor", "--database-url", dsn)
	require.Zero(t, code, out)
	require.Regexp(t, `^WARNING +rejected_rows`, out)
	require.Regexp(t, `\n1 warning, nothing wrong: \d+ checks, \d+ unknown\.\n$`, out)
	code, _, _ = belfry(t, "doctor", "--database-url", dsn, "--strict")
	require.Equal(t, 1, code)
}
