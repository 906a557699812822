// Package sweep measures what retention and deletion at size cost those who push
// and pop meanwhile. Its tests run small in CI, where they prove that the work is
// done and that nobody's messages are lost. At full size they report latencies as
// ratios to the same load without the work. Nobody imports it.
//
//	go test ./test/bench/sweep -v -messages 1000000 -partitions 100000 -limit 1.5
package sweep
