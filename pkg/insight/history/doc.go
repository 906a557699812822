// Package history counts the work of this instance for each queue and group: pushes, pops, acks and others. It
// writes the counts to Postgres once a minute. The analytics routes read the counts of all instances.
//
// # Counting
//
// A Recorder counts in memory. Each count locks one shard for some nanoseconds. At most maxKeys pairs of queue
// and group are counted separately. All other pairs are counted together as the queue Other.
//
// # Writing
//
//  1. At the end of a busy minute, one statement writes a row for each pair with a count, and one row with the
//     figures of the process. At most maxRows pairs have a row: the pairs with the most messages. The Writer
//     sums the others as Other.
//  2. The Writer writes nothing for an idle minute. A waiting request that ends without a message does not make
//     a minute busy. The next row counts the request.
//  3. The Writer writes the number of waiting requests when it changes by more than a tenth, and once in
//     parkedInterval while requests wait. A reader uses the last written number.
//  4. If the statement fails, the next statement writes the same rows again. A row has a unique key, so it is
//     not stored twice if only the answer was lost.
//  5. After a busy minute, the Writer counts the unfinished messages of all queues and groups (pkg/insight/totals). The rows of the
//     minute get the counts that differ from the newest written one. At most maxBacklogs further pairs have a row because
//     of their count: those that changed most. The others follow after a later minute. So a backlog is written when it changes, by
//     whichever instance sees the change first, and also if a consumer in SQL changed it. A count rests for
//     backlogRest times its duration.
//  6. When the server stops, the Writer writes the counts of the current minute.
//
// A backlog does not belong to an instance. Each count has its instant (counted_at), and the newest one of all instances is
// valid. Before it compares, a Writer reads what the other instances have written.
//
// A crash loses the counts since the last minute. The history is only for dashboards. No other package uses it for a
// decision.
//
// # Reading
//
// A Reader reads the rows of the table and the unwritten rows, which are not in the table yet:
//
//  1. The Writer of the same instance makes rows for the current minute, as if the minute ended now. It adds the rows
//     of statements that failed or have not ended.
//  2. The other instances send their unwritten rows (Writer.Unwritten, through pkg/insight/live). The rows of an
//     instance must fit into one notification. If necessary, the instance sums its least busy queues as Other.
//  3. The reading statements get the unwritten rows as a parameter. They ignore an unwritten row if the table has rows of
//     its instance and minute. The check and the sum use one snapshot, so each row counts exactly once.
//
// Only instances can send these rows (pkg/postgres/listen). The Reader still checks every received row. Rows of another
// version of Belfry can make figures wrong, but they cannot make a read fail. The Reader ignores received rows that are
// older than maxAge (one hour).
//
// The job history of pkg/engine/sweep merges old rows into rows for more minutes, and deletes rows past the retention. A
// row contains the name of its queue, so the history of a queue remains after the queue is deleted.
package history
