// Package model checks pkg/store against a model of it: some hundred lines that
// keep one queue in memory and say what each verb must answer. A test draws a
// sequence of verbs, runs each on a real Postgres and on the model, and compares
// the answers, and after every step the cursors, the dead letters and the log.
// A sequence that disagrees is shortened before it is shown.
//
// The queue has two partitions, two consumer groups and two instances that serve
// it; its operator configures it, seeks, puts dead letters back, and deletes
// messages, groups and the queue; sweeps delete what waited too long, and partitions that
// are empty. Time does not pass by waiting: the end of a lease,
// of a rest, and the birth of a message are moved into the past, in the database.
// The verbs come one at a time; what happens when they race is tested in pkg/store
// and test/integration.
//
// How many sequences are run is the flag -rapid.checks, and how long they are
// -rapid.steps; `make model` runs more than `make test` does. What is shown of a
// failure that takes many verbs gets shorter with -rapid.shrinktime=3m.
//
// It has tests only; nobody imports it.
package model
