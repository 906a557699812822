// Command dispatch measures the dispatcher: the delay between a push and the answer of a waiting pop, the cost of waiting
// requests, and lost messages.
//
//	go run ./test/bench/dispatch        # or: make bench-dispatch
//	go run ./test/bench/dispatch --only wake,herd --samples 100
//
// It prints one line for each figure: measure, figure, value, target, and met, missed or BROKEN. A slow machine may miss a
// target. The exit code is 1 if a message was lost, delivered twice, out of order, early or stuck, or if a measure failed.
//
// The command starts a private Postgres with pg_stat_statements and with durable commits. It starts the servers as child
// processes with their default settings. So the processor time and memory of a server do not include the load. The command
// reads both from /proc, which needs Linux. The times come from the clock of this process. Only the measure timers also
// reads the clock of the database, which is the clock of the same machine. Every wait has a limit: a message that does not
// arrive within seconds counts as stuck or lost.
//
// The measures:
//
//	wake       one waiting consumer, a push now and then
//	instances  the same with the consumer at another instance
//	idle       1,000 waiting requests, sent again every 10 s, and no messages:
//	           statements, and the processor time that Belfry uses beyond a bare
//	           HTTP server that holds the same requests
//	herd       1,000 waiting requests of one group, one message: statements
//	many       5,000 waiting requests of 2,000 groups, 200 pushes a second;
//	           memory for each request
//	groups     10,000 groups of one queue; 100 of them have a request that waits at
//	           one instance; 200 pushes a second at another instance: requests that
//	           a resync woke
//	timers     delays, windows and leases end: lateness, and statements meanwhile
//	schedules  100,000 schedules, 1,000 of them due at the same instant: lateness at a
//	           waiting consumer, beside a plain INSERT of 1,000 rows; statements while
//	           none is due
//	mix        two instances, producers and consumers on both: exactly once, in
//	           order
//
// The first messages fill caches, so they are not timed. The measures many and groups have too many groups for such a
// warmup. A time that starts at the answer of a push can be negative. The server delivers the message when the message is
// committed, and answers the push after that.
//
// # Measured
//
// The machine was a virtual machine with 2 cores. Postgres 15, the servers and the load shared the cores. In a tight loop,
// a durable commit took 0.3 ms, a statement 0.16 ms and a bare HTTP request 0.2 ms. After a pause each of them took twice
// as long. The figures of wake, instances, herd and groups were measured later than the others:
//
//	wake       answer of the push to answer of the pop     p50  0.03 ms, p99 0.41 ms
//	           start of the push to answer of the pop      p50  2.27 ms, p99 2.84 ms
//	           autoAck, answer to answer                   p50  0.03 ms, p99 0.17 ms
//	instances  answer of the push to answer of the pop     p50  1.33 ms, p99 4.48 ms
//	idle       statements in 60 s, 1 queue, 1,000 queues   0, 0
//	           processor above a bare server               0.22 %, 0.35 % of a core
//	herd       preflights, claims, still waiting           0, 1, 999
//	           answer to answer, worst of 20               0.09 ms
//	many       answer of the push to answer of the pop     p50  1.4 ms,  p99 4.2 ms
//	           memory for each waiting request             36 KiB (a bare server: 16 KiB)
//	groups     messages, deliveries, lost, resyncs         4,013, 401,300, 0, 0
//	timers     lateness of a delay, a window, a lease      p95  7.3, 5.4, 3.5 ms
//	           statements between request and instant      0
//	mix        18,916 messages, lost, twice, out of order  0, 0, 0
//	           double assignments                          0
//
// The memory is above the target of 20 KiB. A waiting request has two goroutines with 9 KiB of stack each, and 22 KiB of
// heap. The bare server also needs a part of this heap. A waiting request shrinks its stack (package dispatch). After 30 s
// of pushes the two stacks have 13 KiB. Without the shrinking they have 21 KiB. On arrival, the measure many found 37 to 39
// KiB for each request with the shrinking, and 40 KiB without it.
package main
