// Package pgtest gives tests a real Postgres. Each test process has one server, which starts for the first test that needs
// it. Each test has its own database, a copy of a template that pkg/postgres/migrate has migrated.
//
// A package with database tests calls Main in its TestMain:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestPush(t *testing.T) {
//		t.Parallel()
//		pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
//
// Tests may run in parallel. They share nothing, not even NOTIFY channels, because a channel belongs to a database. The
// server is a private server of pkg/postgres/devdb, tuned for speed. Its files are in memory if there is enough free
// memory. BELFRY_TEST_DATABASE_URL can name another server. Without Postgres, tests fail. No test is skipped.
//
// The packages that pgtest imports (devdb, migrate) may use it only in their external test packages.
package pgtest
