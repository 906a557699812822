// Package stats counts and lists what queues hold: messages by state, single
// messages, and the progress of consumer groups. It only reads, and it stores no
// statistics: every number is computed when it is asked for.
//
// # The counts
//
// No table stores the counts. The SQL function belfry.partition_counts computes them
// from a partition's row and its cursors, in O(groups + dead letters). The counts of
// a partition:
//
//	total       stored: last_seq - trimmed - holes
//	deadLetter  dead-lettered for at least one group
//	pending     of the other messages: some group still waits for the message
//	processing  of the other messages: under a live lease of every group that is not
//	            done with the message
//	completed   the remaining messages: every group is done with them
//
// Therefore total = pending + processing + completed + deadLetter. The reader without
// a group counts as a group. The group that has progressed least decides. Without any
// group, a message is pending. A group that pops partitions by name counts only for
// the partitions it has popped. A redriven message is not done until it is settled.
// The lag of a partition is pending + processing; its age is the age of the oldest
// of these messages.
//
// The counts are inexact in one case: messages before a cursor were deleted one by one
// before its group joined or sought back, or by retention beyond a live lease of the
// cursor. The cursor does not know about these gaps. total and deadLetter stay exact.
// Until the cursor or a sweep has passed the gap, done messages may count as pending or
// processing: at most as many as are deleted.
//
// One statement, with one snapshot, reads a page of 1,000 partitions of a queue. While
// messages move, the pages show slightly different instants. Partitions and queues
// under deletion are left out.
//
// # The status of one message
//
// If the partition has a reader without a group, that reader decides:
//
//	dead_letter  dead-lettered for a group
//	processing   under a live lease of the reader without a group
//	completed    done for the reader without a group; without that reader: done for
//	             every named group, and there is one
//	pending      every other message
//
// A redriven message is not done for its group until it is settled.
//
// Status and counts can differ: a message that is done for the reader without a group
// and not for a named group has the status completed and counts as pending.
//
// # The cost of a list of messages
//
// No index orders the messages of a queue by time, because it would slow down every
// push. Within a partition, time never decreases with seq, and the row of the partition
// has the instant of its last push. The list works in three steps:
//
//  1. Read the rows of the partitions, newest push first. No message is read.
//  2. Open partitions in that order and merge their newest messages.
//  3. Stop when the last push of the next partition is older than the page.
//
// A first page of n messages opens about n partitions, however many there are, and
// reads O(n) messages. A later page, or one that ends in the past, also opens the
// partitions with later pushes and does a binary search in each. One list opens at most
// 10,000 partitions and reads at most 100,000 messages. A list that exceeds a bound
// fails with CodeInvalid; the error says how to narrow the list. No payload is read.
//
// # Consumer groups
//
// The lag of a consumer group in a partition counts the stored messages from the
// first unconsumed one on, without dead letters, plus the redriven messages that are
// not settled. A message in a live delivery is unconsumed. The time lag is the age of
// the oldest of these messages.
//
// # Bounded reads
//
// Groups.OfQueue, Show, Places, PreviewSeek and Heat cost the same for any number of partitions and messages.
// They follow the index of the instants at which cursors are due: the partitions that have been due the
// longest, then the leases and delays that end first. They examine a fixed number of cursors, and read the
// first message of each. A sum says if there may be more. A cursor of a paused partition has no instant.
// Such cursors are found by the index of paused partitions. A group whose subscription starts later has no
// lag until then.
package stats
