// Package load sends pushes, pops and acks to a server over HTTP. It verifies the deliveries and measures the
// answers. It knows only the URL of the server and imports no other package of Belfry. Package bench and the
// benchmarks of the repository use it.
//
// # What is verified
//
// Every message contains its lane and its number in the lane. A lane belongs to one producer and one partition. The
// producer pushes one call after the other, so the order in a lane is known for any number of partitions. The Ledger
// compares pushes with deliveries:
//
//   - The server delivers an acknowledged push to every group. Otherwise the message counts as lost.
//   - The messages of a lane arrive in order. A consumer records a delivery before it sends the ack. Until the ack,
//     the lease keeps other consumers away. With autoAck, only the order within one consumer is known.
//   - A message arrives once. If the lease has ended or the ack has failed, a second delivery is not a fault. The
//     ledger counts it as redelivered.
//   - A message is unexpected if it was never pushed, if its push was refused, or if its partition is wrong.
//
// If a push has no answer, the server may or may not have stored its messages. If a pop with autoAck has no answer,
// the server may have consumed messages.
//
// # What is measured
//
// All times use the clock of this process. In a closed loop, a producer sends the next push after the answer to the
// last push, and a push starts when it is sent. In an open loop, all start times are fixed in advance, and a push
// starts at its planned time, even if it is sent later. So if a server stalls for 1 s, the measurement includes the
// wait of all requests planned in that second. Requests that are not sent by the end also count, with their wait
// until the end.
//
// Rates count the answers within the measured interval. Quantiles count the requests that started in the measured
// interval. They have three significant digits.
package load
