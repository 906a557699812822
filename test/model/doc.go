// Package model checks pkg/engine/store against a model. The model is some hundred lines of Go that keep one queue in
// memory and predict the answer of each verb. The test draws a sequence of verbs and runs each verb on a real Postgres and
// on the model. After every step it compares the answers, the cursors, the dead letters and the log. If a sequence fails,
// the test shortens it before it reports the sequence.
//
// The queue has two partitions, two consumer groups and two instances. An operator configures the queue, seeks, redrives
// dead letters, and deletes messages, groups and the queue. Sweeps delete expired messages and empty partitions. The test
// does not wait for time to pass. In the database it moves the end of a lease, the end of a retry delay and the age of a
// message into the past. The verbs run one at a time. Races are tested in pkg/engine/store and test/integration.
//
// This test runs one verb at a time, so the model allows exactly one answer. The checker of test/chaos sees overlapping
// operations with unknown outcomes. So it accepts a history if any order of the operations explains it.
//
// The flag -rapid.checks sets the number of sequences, and -rapid.steps sets their length. `make model` runs more sequences
// than `make test`. With -rapid.shrinktime=3m, rapid spends more time on shortening a failing sequence.
//
// The package has only tests, and no package imports it.
package model
