// Package explain says why a consumer group receives, or does not receive, a message of a partition.
//
// One read-only statement reads the facts, and a pure function judges them with the rules of
// belfry.claim. The statement reads the queue, the partition, the group, the cursor and a few messages, so
// its cost does not depend on the number of partitions. A question may have a transaction id and no partition. Then a
// second statement searches up to 10,000 partitions of the queue for the message. If nothing is left for the group, a further
// statement finds the schedule that stores the next message. It examines up to 2,000 schedules.
//
// The code is "deliverable" or "no_waiter" if and only if a pop of the group from this partition would
// receive a message at that moment. test/model compares the code with a pop. There is one exception: if a SQL consumer
// holds the cursor in an open transaction, the statement does not see this, but a pop receives nothing.
package explain
