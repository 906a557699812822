// Package load sends pushes, pops and acks to a server over HTTP, verifies its deliveries and
// measures its answers. It knows the server only by its URL and imports no other package. Package
// bench and the benchmarks of the repository use it.
//
// # What is verified
//
// Every message carries its lane and its number in the lane. A lane is the part of a partition
// that one producer pushes, one call after the other. So the order in a lane is known for any
// number of partitions. The Ledger compares pushes with deliveries:
//
//   - The server delivers an acknowledged push to every group. Otherwise the message is lost.
//   - The messages of a lane arrive in order. A consumer records a delivery before it sends the
//     ack, and until then the lease keeps other consumers away. With autoAck only the order
//     within one consumer is known.
//   - A message arrives once. A second delivery is no fault after the lease has ended or the ack
//     has failed: the ledger counts it as redelivered.
//   - A message that was never pushed, was refused or is in another partition is a fault.
//
// A push without an answer may be stored or not. With autoAck a pop without an answer may have
// consumed messages.
//
// # What is measured
//
// All times are of the clock of this process. In a closed loop a producer sends the next push
// after the answer to the last one. A push then starts when it is sent. In an open loop all
// start times are fixed in advance. A push starts at its planned time, even if it is sent later.
// So a server that stalls for a second is charged for all requests that were due in that second.
// Requests still unsent at the end count too, with their wait until the end.
//
// Rates count answers within the measured interval. Quantiles are of requests that started in
// it, with three significant digits.
package load
