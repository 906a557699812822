// Package inbox measures producers that use only SQL. It measures four figures:
//   - the time from a commit to a consumer that waits over HTTP,
//   - the cost of many small inserts,
//   - the rate at which the sequencer moves the rows of a large COPY,
//   - the effect of a transaction that stays open.
//
// Small inserts are compared with a naive design: a table whose trigger notifies for each row. The package also measures
// how much small inserts slow down HTTP producers. In CI the tests run small and verify that all messages arrive in order.
// The server and the inserters run in separate processes. No package imports this package.
//
//	go test ./test/bench/inbox -v -p 1 -parallel 1 -samples 300 -rows 100000 -load 2s -rounds 4 -open 60s
//	go test ./test/bench/inbox -v -run TestPacedInserts -load 2s -rounds 24
//
// With -limits, a missed target fails the test. Without -limits, the test only logs a missed target and checks loose
// ratios.
package inbox
