// Package problem finds problems for an operator: late groups, partitions whose first message fails repeatedly, blocked partitions, dead letters,
// pauses, schedules
// that are late or have an error, and transactions that hold a snapshot. It only reads.
//
// # The cost
//
// A request examines at most 500 groups and 500 paused queues. It examines at most nine partitions and one dead letter of
// each group. The first request also examines 100 late schedules and 100 schedules with an error. It finds groups with ready or leased partitions, dead letters or a pause through indexes, so other groups cost
// nothing. Counts are bounded too, and say whether there are more. So the cost does not depend on the size of the database. If a request
// reaches a bound, its answer contains the position at which the next request continues.
//
// A partition is due if a pop could return one of its messages, or if a lease holds it. The age of a group is the age of the
// oldest first message in the five partitions that have been due longest. A partition can be due for a short time although its
// first message is old. So, while consumers work, another partition can have an older message. If a group has no consumers,
// the oldest message is in one of the five partitions.
package problem
