// Package engine is a folder of packages that store, deliver and manage messages in the database:
//
//   - store has the verbs of producers and consumers: push, pop, ack, extend, transaction. It uses batch for group commit,
//     seal to encrypt payloads, and portable to check that all clients can read a payload.
//   - catalog configures, deletes, pauses and seeks queues and groups. deadletter lists, redrives and
//     purges dead letters.
//   - inbox and attach take messages from SQL. stream keeps the state of queries over queues.
//   - sweep deletes old rows. reseal encrypts stored payloads with a new key. maintenance switches pushes and
//     pops off. spool keeps pushes on disk while pushes are switched off.
//   - schedule/when computes the instants of a schedule.
//   - queenimport copies the queues of Queen MQ.
//
// No package here waits for messages. pkg/dispatch does that.
package engine
