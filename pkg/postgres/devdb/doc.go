// Package devdb runs a private Postgres. It finds the programs of Postgres on the machine or downloads them. It creates a cluster
// in a separate folder, and runs the cluster as long as the owner process runs. `belfry dev` and the database tests use the
// package.
//
// It promises:
//
//   - One owner. A locked file in the folder belongs to the process that runs the
//     cluster. A second Start fails at once and names that process.
//   - Start works after any end of the owner, also after kill -9 and power cuts. Start stops a Postgres that is still running,
//     neutralizes a stale pid file and lets Postgres recover. On Linux, the kernel sends Postgres a fast shutdown when its owner
//     dies.
//   - Folders of other programs are safe. Start refuses a folder with other content. Remove deletes only a folder with the
//     marker file of this package.
//   - A cluster that cannot start returns the error text of Postgres at once.
//
// The cluster listens only on 127.0.0.1, has no Unix socket and trusts every local
// connection. Use it for development and tests, not on a machine with users who must not
// read the data.
//
// The folder contains the data, the lock file and the marker file. It also contains the log of the latest start (postgres.log),
// and the log of the start before it (postgres.log.old). Postgres refuses to run as root, so for root this package runs it as
// another account; see account.
package devdb
