// Package engine holds what happens to messages in the database: push, claim, ack, and everything that decides what they
// do there. It is a folder of packages:
//
//   - store has the verbs of producers and consumers: push, pop, ack, extend, transaction. batch is its group commit, seal
//     encrypts payloads, and portable checks that all clients can read a payload.
//   - catalog has queues, groups, seeks, pauses and deletions. deadletter has dead letters and redrives.
//   - inbox and attach take messages from SQL. stream keeps the state of queries over queues.
//   - sweep deletes what is old, reseal changes the key, and spool keeps pushes on disk while Postgres is away or
//     pushes are switched off, which maintenance does.
//   - queenimport copies the queues of Queen MQ.
//
// Nothing here waits for messages: pkg/dispatch does.
package engine
