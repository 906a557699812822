// Package problem finds what an operator should look at: groups that are late, partitions whose first message fails again and
// again, dead letters, pauses, and transactions that hold a snapshot. It only reads.
//
// # The cost
//
// A request examines at most 500 groups and 500 paused queues, and of each group at most eight partitions and one dead
// letter. The indexes lead to the groups that have something to do, so groups without work cost nothing. Counts are bounded
// too, and say whether there is more. So the cost does not depend on the size of the database. If there are more groups than
// that, the answer says where to go on.
//
// A partition is due if a pop could return a message of it, or if a lease holds it. The age of a group is that of the oldest
// first message in the five partitions that are due longest. The instant at which a partition became due is not the age of its
// first message, so an older message can be in another partition while all of them are consumed. A group that nobody consumes has
// its oldest message among them.
package problem
