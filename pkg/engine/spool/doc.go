// Package spool keeps pushes on the disk of this instance during push maintenance, and stores them when
// it ends.
//
// # What is promised
//
// Push returns after the messages are on disk. They stay there until the transaction that stores them has
// committed, also over a restart or a crash. If the process ends between that commit and the removal from
// the disk, they are pushed again, with the same transaction ids, and the database finds the duplicates.
//
// The messages of a queue keep their order on this instance: as long as the spool holds messages of a
// queue, each further push to that queue goes to the spool. So they leave with the messages before them.
// A push that names such a queue goes to the spool as a whole. Transactions, cycles of streams and SQL
// producers do not use the spool.
//
// A message that the database refuses goes to the list of rejected messages, with the reason. Retry puts
// them back at the end. If a message fails several times with an unexpected error, the messages after it are
// tried without it. Once one of them was stored, it is tried again: it is refused if it fails, and otherwise
// stored out of order. A queue that is full keeps its messages in the spool and is tried again;
// the other queues go on.
//
// With a key for encryption, every payload in the spool is encrypted: only the database knows which queues are
// encrypted, and it may be unreachable. The instance that stores the messages needs the same key.
//
// # How
//
// The messages are records in a file of bbolt, in the order of their keys. Many pushes share one
// transaction of the file (pkg/engine/batch), which is two fsyncs. The file exists only as long as it holds
// something or maintenance is on. One process at a time can use a directory. Each instance writes to
// belfry.spool what its spool holds, after a change and at most once a second.
package spool
