// Package inbox measures producers that use only SQL. Four figures count: the time from a commit
// to a consumer that waits over HTTP, the cost of many small inserts, the rate at which a large
// COPY is sequenced, and the effect of a transaction that stays open. Small inserts are compared with the naive
// design, a table whose trigger notifies for each row, and with their effect on HTTP producers.
// The tests run small in CI, where they verify that all messages arrive in order. The server and
// the inserters are processes of their own. No package imports it.
//
//	go test ./test/bench/inbox -v -p 1 -parallel 1 -samples 300 -rows 100000 -load 2s -rounds 4 -open 60s
//	go test ./test/bench/inbox -v -run TestPacedInserts -load 2s -rounds 24
//
// With -limits a missed target fails the test. Without it the test logs the target and checks
// only loose ratios.
package inbox
