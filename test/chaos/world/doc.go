// Package world is the environment of a chaos run: a private Postgres, several Belfry servers in their own processes,
// and an unreliable network between clients and servers, servers and database, and listeners and database. It injects
// faults and repairs them, and reports when everything works again. All random choices come from the given source.
//
// The program must call Child at the beginning of main, because servers are further processes of the same program. To
// step a server's clock, servers run a program of package clock.
//
// Some faults have requirements. Filling a disk mounts a small tmpfs for the WAL, and failing over starts a second
// Postgres. Pick reports the faults that are not possible. Each fault states how long a message may wait because of it.
package world
