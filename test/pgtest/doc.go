// Package pgtest gives tests a real Postgres: one server per test process, started for the first test that needs it,
// and one database per test, cloned from a template that pkg/postgres/migrate has migrated.
//
// A package with database tests calls Main in its TestMain:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestPush(t *testing.T) {
//		t.Parallel()
//		pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
//
// Tests may run in parallel. They share nothing, not even NOTIFY channels, because channels belong to a database. The
// server is a private one of pkg/postgres/devdb, tuned for speed and in memory if there is room, or the one named by BELFRY_TEST_DATABASE_URL. Without
// Postgres, tests fail. No test is skipped.
//
// The packages that pgtest imports (devdb, migrate) may use it only in their external test packages.
package pgtest
