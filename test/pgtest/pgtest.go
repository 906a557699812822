package pgtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

const (
	// setupTimeout limits one call. The first call starts and migrates a server, perhaps on a busy machine.
	setupTimeout = 3 * time.Minute
	stopTimeout  = 30 * time.Second
)

// shared is the server of this test process.
var shared server

// Main runs the tests of a package with database tests. The package calls it in its TestMain. Main then stops the server
// and exits. The exit code is 1 if goroutines are left.
func Main(m *testing.M) {
	shared.allow()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintf(os.Stderr, "pgtest: %v\n", err)
		code = 1
	}
	if code == 0 { // after a failure, leftover goroutines prove nothing
		if err := goleak.Find(); err != nil {
			fmt.Fprintf(os.Stderr, "pgtest: goroutines outlived the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Database returns the DSN of a new migrated database. The database is dropped at the end of the test, even if clients are
// still connected. Without Postgres, Database fails the test.
func Database(t testing.TB) string {
	t.Helper()
	return database(t, (*server).migratedLocked)
}

// DatabaseWithoutSchema creates a database like Database, but without the schema belfry.
func DatabaseWithoutSchema(t testing.TB) string {
	t.Helper()
	return database(t, (*server).emptyLocked)
}

// EncodedDatabase creates a database like Database, but with another encoding.
func EncodedDatabase(t testing.TB, encoding string) string {
	t.Helper()
	return database(t, optionsLocked("ENCODING '"+encoding+"' LOCALE 'C'"))
}

// TurkishDatabase creates a database like Database, but with a locale in which the uppercase of i is not I. Postgres 14
// does not offer this locale for databases. There the database has the locale C.
func TurkishDatabase(t testing.TB) string {
	t.Helper()
	return database(t, func(s *server, ctx context.Context, name string) error {
		var icu bool
		if err := s.admin.QueryRow(ctx, "SELECT current_setting('server_version_num')::int >= 150000").Scan(&icu); err != nil {
			return err
		}
		options := "ENCODING 'UTF8' LOCALE 'C'"
		if icu {
			options += " LOCALE_PROVIDER icu ICU_LOCALE 'tr'"
		}
		return optionsLocked(options)(s, ctx, name)
	})
}

func database(t testing.TB, create maker) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
	defer cancel()
	dsn, name, err := shared.create(ctx, create)
	if err != nil {
		t.Fatalf("making a test database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
		defer cancel()
		if err := shared.drop(ctx, name); err != nil {
			t.Errorf("dropping a test database: %v", err)
		}
	})
	return dsn
}

// OwnCluster starts a server for one test. The test may kill and restart it. The server is stopped and removed at the end
// of the test. The test creates and migrates its databases. without names settings of pgtest that the server does not get.
// For them the server has the defaults of Postgres, and ALTER SYSTEM can change them.
func OwnCluster(t testing.TB, without ...string) *devdb.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), setupTimeout)
	defer cancel()
	cluster, err := startCluster(ctx, unused, without...)
	if err != nil {
		t.Fatalf("starting a Postgres for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := removeCluster(cluster); err != nil {
			t.Errorf("removing the Postgres of the test: %v", err)
		}
	})
	return cluster
}
