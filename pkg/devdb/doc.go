// Package devdb runs a private Postgres: it finds the programs of Postgres on
// the machine, or fetches them, makes a cluster in a folder of its own and keeps
// it running for as long as its owner lives. `belfry dev` and the database tests
// stand on it.
//
// It promises:
//
//   - One owner. A locked file in the folder belongs to the process that runs
//     the cluster; a second Start fails at once and says who that is.
//   - No dead end. However the owner ended, kill -9 and power cuts included, the
//     next Start works: it stops a Postgres left running, clears a pid file left
//     behind and lets Postgres recover. On Linux the kernel stops Postgres in
//     order when its owner dies.
//   - Nothing foreign is touched. A folder with other things in it is refused,
//     and only a folder with our mark is ever removed.
//   - A cluster that cannot start says why at once, in Postgres's own words.
//
// The cluster listens on 127.0.0.1 only, without a Unix socket, and trusts every
// local connection: it is for development and tests, not for a machine shared
// with people who must not read the data.
//
// The folder holds the data, the lock, a mark and postgres.log with the log of
// the latest start (postgres.log.old has the one before). Postgres refuses to
// run as root, so for root it runs as another account; see account.
//
// Importable by pkg/app and above, and by test/pgtest.
package devdb
