// Package queenimport copies the queues of a Queen MQ 0.15 database into Belfry: queues with their
// options, partitions, messages, consumer groups with their places, dead letters, and the state of
// streams. The command `belfry import queen` uses it.
//
// # What is kept
//
// Ids of queues, partitions, messages and queries, instants, transaction ids, trace ids, the subjects of
// producers, and the text of each payload. An encrypted payload is opened with the key of the source, and
// sealed with the key of this server if its queue encrypts.
//
// # Which messages
//
// A run copies the messages that some group of the partition has not passed, and the messages that are dead
// letters. With Options.All it copies every message. The messages of a partition get new positions from 1, in the order of the source.
//
// A payload or a state that some client cannot read (pkg/engine/portable) stops the run before the page of its message is
// stored. The error names it. With Options.AllowAnyJSON it is copied.
//
// # How a copy proceeds
//
// The source is read in one snapshot and never changed. Queue by queue, the messages of each partition
// come first, in pages; each page is one transaction of the target. Then, in one transaction, come groups,
// places and dead letters. A run that stopped is continued by the next one: it goes on after the last
// message of each partition. Stop the producers of the source before the last run, because a message with
// an earlier instant than the last copied one is not found any more; Verify finds it missing.
//
// A lease of the source is not kept: its messages are delivered again.
package queenimport
