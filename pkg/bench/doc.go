// Package bench puts load on a server with this HTTP API, measures it and checks
// what it was told. It knows the server by its URL only, so it measures any
// server; it imports no other room, and `belfry bench` is its caller.
//
// A scenario is one way to load: see scenarios. A trial is one run of one
// scenario, on a queue of its own.
//
// # What is checked
//
// Every message carries its lane and its number there. A lane is the part of a
// partition that one producer pushes, one call after the other, so the order in a
// lane is known whatever the number of partitions. The ledger holds what was
// pushed against what was popped:
//
//   - a push that was answered is delivered to every group: else it is lost;
//   - the messages of a lane come in order: a consumer notes what it has before
//     it acknowledges, and a lease keeps the others away until then. With autoAck
//     nothing does, so there the order is that of each consumer;
//   - a message comes once, unless its lease had ended or its ack failed: that is
//     redelivery, counted and no fault;
//   - nothing comes that was not pushed, or was refused, or in another partition.
//
// A push without an answer may be there or not. With autoAck a pop without an
// answer may have taken messages, so what is missing then is told and not judged.
// When the load has ended, consumers take what is left before all this is judged.
//
// # What is measured
//
// All times are of one clock, this process's. A closed loop sends the next
// request when the last is answered; a push starts when it is sent. An open loop
// (Rate) sends at instants fixed in advance, and a push starts at its instant,
// however late it is sent: a server that stands still for a second is charged for
// all that was due in it. What was due and not sent by the end is counted, and
// its wait until then is in the figures.
//
// Producers in a closed loop stop while more than Window messages are on the way,
// so the rate of end-to-end is one that consumers keep up with. A larger window
// gives a somewhat higher rate and much longer times.
//
// Rates count what was answered between the warmup and the end. Quantiles are of
// requests that started there, with three digits.
package bench
