// Package model checks pkg/engine/store against a model: some hundred lines that keep one queue in memory and predict the
// answer of each verb. The test draws a sequence of verbs and runs each verb on a real Postgres and on the model. After
// every step it compares the answers, the cursors, the dead letters and the log. A failing sequence is shortened before
// it is shown.
//
// The queue has two partitions, two consumer groups and two instances. Its operator configures it, seeks, redrives dead
// letters, and deletes messages, groups and the queue. Sweeps delete expired messages and empty partitions. Time does
// not pass by waiting: the test moves the end of a lease, the end of a retry delay and the age of a message into the
// past, in the database. The verbs run one at a time. pkg/engine/store and test/integration test races.
//
// The model steps with the store, so it knows each outcome and allows one answer. The checker of test/chaos sees a history from
// outside, in which outcomes are unknown and operations overlap, so it asks whether any order explains it. Neither can do the work
// of the other.
//
// The flag -rapid.checks sets the number of sequences, and -rapid.steps their length. `make model` runs more than `make
// test`. With -rapid.shrinktime=3m, a long failing sequence becomes shorter.
//
// The package has only tests, and no package imports it.
package model
