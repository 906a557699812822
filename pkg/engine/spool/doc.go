// Package spool keeps pushes on the disk of this instance during push maintenance. When maintenance
// ends, it stores them in the database.
//
// # What is promised
//
// Push returns after the messages are on disk. They stay on disk until the database has committed them,
// also after a restart or a crash. If the process ends between that commit and the removal from the disk,
// the spool pushes the messages again with the same transaction ids. The database then drops the
// duplicates.
//
// The messages of a queue keep their order on this instance: as long as the spool holds messages of a
// queue, each further push to that queue also goes to the spool. If one message of a push goes to such a
// queue, all messages of the push go to the spool. Transactions, cycles of streams and SQL producers do
// not use the spool.
//
// A message that the database refuses goes to the list of rejected messages, with the reason. Retry puts the
// rejected messages at the end of the spool. If messages of a queue fail isolateAfter times with an
// unexpected error, the spool skips the failing message and tries later messages. After it has stored a
// later message, it tries the skipped message again. If this fails too, the message is refused. Otherwise it
// is stored out of order. The messages of a full queue stay in the spool, and the spool tries again.
// Meanwhile it stores the messages of other queues.
//
// If the instance has a key for encryption, it encrypts every payload in the spool. Only the database knows
// which queues have encryptionEnabled, and the database may be unreachable. The instance that stores the
// messages needs the same key.
//
// # How the spool stores
//
// The messages are records in a file of bbolt, in the order of their keys. Many pushes share one
// transaction of the file (pkg/engine/batch). Each transaction costs two fsyncs. The file exists only while
// it holds messages or maintenance is on. Only one process at a time can use a directory. After a change,
// and at most once a second, each instance writes the numbers and sizes of its spool to the table
// belfry.spool.
package spool
