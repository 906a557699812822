// Package stats answers what an operator asks of queues: how many messages they
// hold and in what state, and which messages. It only reads, writes no statistics
// and keeps none, so its numbers are those of this instant.
//
// # The numbers
//
// Nothing counts messages. A partition's row and its cursors say how many there
// are in each state, in O(groups + dead letters); the SQL function
// belfry.partition_counts is the one place that does the sum. Of a partition:
//
//	total       stored: last_seq - trimmed - holes
//	deadLetter  dead-lettered for at least one group
//	pending     of the others, those some group still waits for
//	processing  of the others, those under a live lease of every group that is
//	            not done with them
//	completed   the rest: done for every group
//
// So total = pending + processing + completed + deadLetter, always. Groups are
// the named ones and the reader without a group alike: a message counts by the
// group that has got the least far with it, and when nobody reads the partition
// it is pending. A partition that was never popped by a group which reads others
// by name does not count for that group. The lag of a partition is pending +
// processing, and its age that of the oldest of them. What was redriven waits until
// it is settled.
//
// One thing a cursor does not know: which messages before it are gone that were
// deleted one by one before its group joined or sought back, or by retention beyond
// a live lease of its own. total and deadLetter are exact all the same, and so are
// the others while nobody has moved on from there. Then, until the cursor has
// passed the gap or a sweep has moved it over, messages that are done but still
// stored may count as pending, or processing when a lease spans the gap: at most as
// many as are gone.
//
// A queue's numbers are the sums over its partitions. They are read in pages of
// 1,000 partitions a queue, each a statement and a snapshot of its own: while
// messages move, the pages may be of slightly different instants. Partitions and
// queues that are being deleted are not there.
//
// # The status of one message
//
// It follows the wire contract, section 7.2, and is asked of the reader without a
// group where there is one:
//
//	dead_letter  dead-lettered for a group
//	processing   under a live lease of the reader without a group
//	completed    done for the reader without a group; where there is none, for
//	             every named group (and there is one)
//	pending      everything else
//
// What was redriven is not done for its group until it is settled.
//
// Where groups are mixed the two differ: a message that the reader without a
// group has done, and a named one has not, has the status completed and is
// counted as pending.
//
// # What a list of messages costs
//
// No index orders the messages of a queue by time: it would make every push
// dearer. But within a partition time never falls, and each partition's row knows
// the instant of its last push, which bounds all of its messages. So a list reads
// the partition rows of the queues asked for (no message), takes partitions in
// the order of that bound, merges their newest messages, and stops when the bound
// of the next partition is older than the page. A first page of n messages looks
// into about n partitions, however many there are, and reads O(n) messages.
//
// A later page, or one that ends in the past, must also look into the partitions
// pushed to since, by a binary search each. One list looks into at most 10,000
// partitions and at 100,000 messages; one that needs more is refused with
// CodeInvalid and says how to narrow it. No payload is ever read.
//
// # Consumer groups
//
// The lag of a consumer group in a partition is what is stored from the first
// message it has not consumed on, without dead letters, and what was redriven for
// it and is not settled; a message in a live delivery is not consumed. The age of
// the oldest of them is its lag in time.
//
// Importable from floor 3 upwards.
package stats
