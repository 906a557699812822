// Package inbox measures producers who speak only SQL: how soon a commit reaches a
// consumer that waits over HTTP, what many small inserts cost beside the naive
// design (a table whose trigger notifies for each row) and do to HTTP producers,
// how fast a large COPY is sequenced, and whether a transaction that stays open
// holds anything up. Its tests run small in CI, where they prove that all arrives,
// in order. The server and those who insert are processes of their own. Nobody imports it.
//
//	go test ./test/bench/inbox -v -p 1 -parallel 1 -samples 300 -rows 100000 -load 2s -rounds 4 -open 60s
//	go test ./test/bench/inbox -v -run TestPacedInserts -load 2s -rounds 24
//
// With -limits a figure that is not what is promised fails the test; without it, that is
// only said, and the limits are loose ratios.
package inbox
