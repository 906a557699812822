// Package stats counts and lists the content of queues: messages by state, single
// messages, and the progress of consumer groups. It only reads. It stores no
// statistics, and computes every number for each request.
//
// # The counts
//
// No table stores the counts. The SQL function belfry.partition_counts computes them
// from a partition's row and its cursors, in O(groups + dead letters). The counts of
// a partition:
//
//	total       stored: last_seq - trimmed - holes
//	deadLetter  dead-lettered for at least one group
//	pending     not a dead letter, and some group is not done with the message and has
//	            no live lease of it
//	processing  not a dead letter, some group is not done with the message, and each
//	            such group has a live lease of it
//	completed   not a dead letter, and every group is done with the message
//
// Therefore total = pending + processing + completed + deadLetter. The reader without
// a group counts as a group. The group that has progressed least decides. Without any
// group, a message is pending. A group that pops partitions by name counts only for
// the partitions it has popped. A redriven message is not done until it is settled.
// The lag of a partition is pending + processing; its age is the age of the oldest
// of these messages.
//
// The counts can be inexact if a gap of deleted messages is not in the skip list of a
// cursor. There are two such gaps: single messages were deleted before the group joined
// or sought back, or retention deleted messages beyond a live lease of the cursor. Until
// the cursor or a sweep has passed the gap, done messages may count as pending or
// processing, at most as many as the gap has. total and deadLetter are always exact.
//
// One statement, with one snapshot, reads a page of 1,000 partitions of a queue. So
// different pages show slightly different instants. The counts leave out partitions and
// queues under deletion.
//
// # The status of one message
//
// If the partition has a reader without a group, that reader decides:
//
//	dead_letter  dead-lettered for a group
//	processing   under a live lease of the reader without a group
//	completed    done for the reader without a group. If there is no such reader: done
//	             for every named group, and there is at least one
//	pending      every other message
//
// A redriven message is not done for its group until it is settled.
//
// Status and counts can differ. If the reader without a group is done with a message and a
// named group is not, the message has the status completed but counts as pending.
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
// The lag of a consumer group in a partition counts the stored messages after the
// cursor, without dead letters, plus the redriven messages that are not settled. A
// message under a live lease is after the cursor. The time lag is the age of the
// oldest of these messages.
//
// # Bounded reads
//
// The cost of Groups.Beginnings, Places, PreviewSeek and Heat does not grow with the number of partitions
// and messages. They read cursors in the order of ready_at: first the partitions that have been due the
// longest, then the leases and delays that end first. They examine a fixed number of cursors, and read the
// first message of each. If there may be more, the answer says that its sums are lower bounds. A cursor of
// a paused partition may have no ready_at, so the statements also read the index of paused partitions. A
// group whose subscription starts later has no lag until then.
package stats
