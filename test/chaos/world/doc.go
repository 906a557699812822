// Package world is the environment of a chaos run: a private Postgres, several Belfry servers in separate processes,
// and an unreliable network. The network is between clients and servers, servers and database, and listeners and
// database. The package injects and repairs faults, and reports when everything works again. All random choices come
// from a source that the caller gives.
//
// The program must call Child at the beginning of main, because the servers are child processes with the same
// program. If faults step clocks, the servers run a program that package clock has built.
//
// Some faults have requirements. fill-disk mounts a small tmpfs for the WAL, and fail-over starts a second Postgres.
// Pick reports the faults that are not possible. Each fault has an excuse: the time that a message may wait because
// of the fault.
package world
