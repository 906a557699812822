// Command chaos injects faults while many clients use Belfry, and checks that every promise was kept. It starts a
// private Postgres and several servers, and runs producers and consumers (test/chaos/workload). It injects one fault
// after the other into processes, connections, sessions and commits (test/chaos/world). After each fault it waits
// until everything works again. At the end it drains every group and checks the history (test/chaos/history,
// test/chaos/check).
//
//	go run ./test/chaos --seed 7 --duration 60s --instances 2
//	go run ./test/chaos --faults kill-server,freeze-database,mix
//	go run ./test/chaos --instances 3 --schedules 1000
//
// With --schedules, there is another workload: schedules that are due each second (test/chaos/ticks). Each instant must get
// exactly one message.
//
// It prints one line per fault: the fault and its duration, the time until everything worked again, and the longest
// stall. A stall is a period without a delivery while messages were ready. The exit code is 0 if all promises were
// kept. Otherwise the command keeps the seed, the history and the logs in a folder, and prints the name of the
// folder. A seed repeats the random choices, but not the timing.
package main
