// Command dispatch measures the dispatcher: how long a waiting consumer sleeps
// on after a push, what waiting costs, and whether anything gets lost in between.
//
//	go run ./test/bench/dispatch        # or: make bench-dispatch
//	go run ./test/bench/dispatch --only wake,herd --samples 100
//
// It prints one table: measure, figure, target, met or missed. A missed target
// is a matter of the machine; it exits with 1 when a message was lost,
// delivered twice, out of order, early or stuck, and when a measure failed.
//
// It brings a Postgres of its own, durable and with pg_stat_statements, and runs
// the server as child processes with their default settings, so that their
// processor time and memory can be read apart from those of the load. Those two
// are read from /proc, so it needs Linux. All times are taken in this one
// process: two clocks are never compared, except by timers, which trusts that
// the database's clock is that of the machine. No answer is awaited in vain: a
// message that does not come within seconds counts as stuck or lost.
//
// The measures:
//
//	wake       one waiting consumer, a push now and then
//	instances  the same with the consumer at another instance
//	idle       1,000 waiting requests, sent again every 10 s, and no messages:
//	           statements, and processor time beside that of a bare HTTP server
//	           that holds the same requests
//	herd       1,000 waiting requests of one group, one message: who looks
//	many       5,000 waiting requests of 2,000 groups, 200 pushes a second;
//	           memory for each request
//	timers     delays, windows and leases end: how late, and who looks meanwhile
//	mix        two instances, producers and consumers on both: exactly once, in
//	           order
//
// The first messages meet empty caches and are not counted in the times, except
// by many, whose groups are too many to warm. A time from the answer of a push
// can be negative: the message is handed over or announced when it is committed,
// before the push is answered.
//
// # Measured
//
// On a virtual machine with 2 cores that Postgres 15, the servers and the load
// shared (a durable commit 0.3 ms, a statement 0.16 ms, a bare HTTP request
// 0.2 ms, all in a tight loop; after a pause everything takes twice as long). One
// run of all measures:
//
//	wake       answer of the push to answer of the pop     p50 -0.12 ms, p99 0.55 ms
//	           start of the push to answer of the pop      p50  2.65 ms, p99 4.3 ms
//	           (the next run, with the claim as a function p50  2.27 ms, p99 4.9 ms)
//	           autoAck, answer to answer                   p50  1.4 ms,  p99 2.5 ms
//	instances  answer of the push to answer of the pop     p50  1.4 ms,  p99 2.7 ms
//	idle       statements in 60 s, 1 queue, 1,000 queues   0, 0
//	           processor above a bare server               0.22 %, 0.35 % of a core
//	herd       preflights, claims, still waiting           1, 1, 999
//	           delivered within, worst of 20               13.8 ms
//	many       answer of the push to answer of the pop     p50  1.4 ms,  p99 4.2 ms
//	           memory for each waiting request             36 KiB (a bare server: 16 KiB)
//	timers     lateness of a delay, a window, a lease      p95  7.3, 5.4, 3.5 ms
//	           statements between request and instant      0
//	mix        18,916 messages, lost, twice, out of order  0, 0, 0
//	           double assignments                          0
//
// The memory is above the aim of 20 KiB: two goroutines with 9 KiB of stack each
// and 22 KiB of heap, of which HTTP has its share at the bare server, too. Since who
// rests uses less of its stack (package dispatch), the two stacks are 13 KiB after 30 s of
// pushes instead of 21: three runs of many had 37 to 39 KiB on arrival, two before it 40.
package main
