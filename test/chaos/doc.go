// Command chaos breaks Belfry's surroundings while many clients use it, and checks
// that every promise was kept. It starts a Postgres and several servers of its own,
// lets producers and consumers loose on them (test/chaos/workload), and breaks one
// thing after the other (test/chaos/world): processes, connections, sessions,
// commits. After each it waits until everything works again. In the end it drains
// every group and judges the history (test/chaos/history).
//
//	go run ./test/chaos --seed 7 --duration 60s --instances 2
//	go run ./test/chaos --faults kill-server,freeze-database,mix
//
// One line per fault says what was broken and for how long, how long it took until
// everything worked, and the longest stall: time without a delivery although
// messages were ready. The exit code is 0 when all promises were kept. Otherwise
// the seed, the history and the logs are kept in a folder that it names. A seed
// repeats the choices, not the timing.
package main
