// Package sweep measures how much retention, or the deletion of a large queue, slows down pushes and pops. In CI its tests
// run small and verify that the work is done and that no message is lost. At full size they report latencies as a ratio:
// with the work, divided by without the work. No package imports this package.
//
//	go test ./test/bench/sweep -v -messages 1000000 -partitions 100000 -quiet 2s -limit 1.5
package sweep
