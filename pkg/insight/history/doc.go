// Package history counts what this instance does for each queue and group, and writes the counts to
// Postgres once a minute. The routes of analytics read them, for all instances.
//
// # Counting
//
// A Recorder counts in memory. It holds a lock of one shard for some nanoseconds in each request. At most
// maxKeys pairs of queue and group have counts of their own. The others are counted as the queue Other.
//
// # Writing
//
//  1. At the end of a minute in which something happened, one statement writes a row for each pair that
//     counted something, and one row with the figures of the process. At most maxRows pairs have a row,
//     those with the most messages. The others are summed as Other.
//  2. Nothing is written for a minute in which nothing happened. A waiting request that ends without a
//     message does not make a row. It is counted in the next row.
//  3. The number of waiting requests is written when it changes by more than a tenth, and once in
//     parkedInterval while requests wait. A reader takes the last one that was written.
//  4. If the statement fails, the same rows are written again with the next ones. The key of a row makes
//     this safe also when only the answer was lost.
//  5. The last minute is written when the server stops.
//
// A crash loses the counts since the last minute. The history is for dashboards: it decides nothing.
//
// # Reading
//
// A Reader reads the rows, and what is counted and not written:
//
//  1. The Writer of the same instance makes the rows of the minute as if it ended now. It adds the rows of statements
//     that have failed or have not ended.
//  2. The other instances send theirs (Writer.Unwritten, through pkg/insight/live). The rows of an instance fit into one
//     notification. If they do not, its least busy queues are summed as Other.
//  3. The statements get these rows as a parameter. They leave out the rows of an instance and a minute that the table
//     has. The check and the sum have one snapshot, so nothing counts twice and nothing is missed.
//
// Only instances can send these rows (pkg/postgres/listen). The Reader checks them all the same: rows of another version
// can make figures wrong, but no read fails. Rows older than two minutes are ignored.
//
// The job history of pkg/engine/sweep adds up old rows, so that one stands for more minutes, and deletes older ones. A row names
// its queue, so the history of a queue stays after its deletion.
package history
