// Package pgtest gives tests a real Postgres: one server per test process,
// started when the first test asks for it, and one database per test, cloned
// from a template that pkg/migrate has brought up to date.
//
// A package with database tests hands its TestMain to Main:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestPush(t *testing.T) {
//		t.Parallel()
//		pool, err := pgxpool.New(t.Context(), pgtest.Database(t))
//
// Tests may run in parallel; they share nothing, NOTIFY channels included, for
// those belong to a database. The server is a private one of pkg/devdb, tuned
// for speed, or the one named by BELFRY_TEST_DATABASE_URL. A machine without
// Postgres fails the tests; nothing is skipped.
//
// pkg/migrate and everything above floor 2 may import it, in tests only.
// Packages that pgtest itself stands on (devdb, migrate) do so from their
// external test package, or not at all.
package pgtest
