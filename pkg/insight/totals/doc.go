// Package totals counts the messages of all queues and groups, exactly and in one place. Every page, command, metric and route of
// Belfry's own that shows the depth of a queue, the lag of a group or dead letters reads the same Snapshot. So one state has one
// number everywhere. It only reads the database, so it also counts what consumers in SQL and other instances do.
//
// # A pass
//
// A pass reads the rows of all queues, groups, partitions, cursors and dead letters, in pages of 20,000 partitions. The depth of a
// partition is in its row and in its cursors. A pass reads only two kinds of messages: the first unfinished one of each cursor that
// is behind, for its age, and the first one of a partition without a cursor. The cost is O(partitions + cursors + dead letters). The definitions are
// those of pkg/insight/stats: the messages of a queue are the sums of belfry.partition_counts, and the lag of a group is that of
// stats.Groups.List. A test compares both after random work.
//
// Each page has its own snapshot of the database. Everything that was committed before Snapshot.At is counted. While messages move,
// two pages show slightly different instants.
//
// # When a pass runs
//
//  1. A pass runs only because somebody reads. An idle server sends no statement.
//  2. One pass runs at a time, and all readers share it.
//  3. After a pass there is a pause of 3 times what it took, at least 100 ms. So reading costs at most a quarter of one
//     core of Postgres.
//  4. Read returns the last snapshot at once during the pause. After the pause it starts a pass and waits a tenth of a second for
//     it. A pass of a small database ends within that time. Otherwise Read returns the last snapshot, which says its age. It waits
//     longer after Expire, and if there is no snapshot.
//  5. Fresh waits for a snapshot that is new enough, and also for the pause.
//
// # Open pages
//
// A page that got an older snapshot must not keep it. While a page is open (Watch), a read that got a snapshot from before the
// read is owed a pass: it runs when the pause is over. If its numbers differ from the snapshot before, the pages are told once, and
// read again. That read may be owed a pass too. The chain ends with the first pass without a difference, so an idle
// server becomes silent. Any number of pages cost one pass.
//
// The statistics of Postgres (n_tup_ins and others) could show that nothing has changed, but backends report them up to
// 10 seconds late. A pass that nobody asks for does not run at all, so the test would save little and could show an old number as exact.
package totals
