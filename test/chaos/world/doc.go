// Package world is what a chaos run takes place in: a private Postgres, several
// Belfry servers in processes of their own, and a bad network between clients and
// servers, servers and database, and listeners and database. It breaks any of it
// on request, mends it again, and says when everything worked again. All choices
// come from the random source it is given.
//
// The program that uses it must call Child first thing in main: servers are
// further runs of the same program. For steps of a server's clock they are runs of
// a program built for that, with an overlay of package time.
//
// Some faults need more of the machine than others: filling a disk mounts a small
// tmpfs for the WAL, failing over makes a second Postgres. Pick says what cannot
// be had. Each fault says how long a message may wait because of it, for the judge.
package world
