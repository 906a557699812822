// Command chaos injects faults around Belfry while many clients use it, and checks that every promise was kept. It
// starts its own Postgres and several servers, and runs producers and consumers against them (test/chaos/workload). It
// injects one fault after the other (test/chaos/world): in processes, connections, sessions and commits. After each
// fault it waits until everything works again. At the end it drains every group and judges the history
// (test/chaos/history).
//
//	go run ./test/chaos --seed 7 --duration 60s --instances 2
//	go run ./test/chaos --faults kill-server,freeze-database,mix
//
// It prints one line per fault: the fault and its duration, the time until everything worked again, and the longest
// stall. A stall is time without a delivery while messages were ready. The exit code is 0 if all promises were kept.
// Otherwise it keeps the seed, the history and the logs in a folder, and prints its name. A seed repeats the choices,
// not the timing.
package main
