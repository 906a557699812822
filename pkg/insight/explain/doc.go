// Package explain says why a consumer group receives, or does not receive, a message of a partition.
//
// One read-only statement reads the facts, and a pure function judges them with the rules of
// belfry.claim. The statement reads the queue, the partition, the group, the cursor and a few messages, so
// its cost does not depend on the number of partitions. A question with a transaction id and without a partition costs
// one more read, which searches up to 10,000 partitions of the queue.
//
// The code is "deliverable" or "no_waiter" if and only if a pop of the group from this partition would
// receive a message at that moment (test/model compares them). The exception: no other session
// sees that a SQL consumer holds the cursor in an open transaction.
package explain
