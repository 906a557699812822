// Package queenimport copies a Queen MQ 0.15 database into Belfry: queues with their options,
// partitions, messages, consumer groups with their positions, dead letters, and the state of
// streams. The command `belfry import queen` uses it.
//
// # What is kept
//
// A copy keeps the ids of queues, partitions, messages and queries, all times, transaction ids, trace
// ids, the subjects of producers, and the text of each payload. A run decrypts payloads with the key of
// the source. It encrypts a payload with the key of this server if the queue has encryptionEnabled.
//
// # Which messages
//
// A run copies each message that at least one group has not consumed, and each message that is a dead letter. With
// Options.All it copies every message. The messages of a partition get new seqs from 1, in the order of the source.
//
// A payload or a state that some client cannot read (pkg/engine/portable) stops the run before its page is stored. The
// error names the message or the key of the state. With Options.AllowAnyJSON the run copies such JSON.
//
// # How a copy proceeds
//
// A run reads the source in one snapshot and never changes it. It copies queue by queue. For each queue it
// first copies the messages of each partition in pages. Each page is one transaction of the target. Then
// one transaction copies groups, positions and dead letters. If a run stopped, the next run continues
// after the last copied message of each partition. Stop the producers of the source before the last run: a
// later run does not copy a message whose created_at is before the last copied message, and Run then fails
// with ErrDiffers.
//
// A run does not copy leases, so leased messages are delivered again.
package queenimport
