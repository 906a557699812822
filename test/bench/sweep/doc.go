// Package sweep measures the cost of retention and of the deletion of a large queue for pushes and
// pops at the same time. Its tests run small in CI, where they verify that the work is done and
// that no message is lost. At full size they report latencies as ratios to the same load without
// the work. No package imports it.
//
//	go test ./test/bench/sweep -v -messages 1000000 -partitions 100000 -quiet 2s -limit 1.5
package sweep
