// Package tracing makes OpenTelemetry spans of the work of a server, and exports spans and metrics by OTLP. The standard
// environment variables configure it, and docs/tracing.md describes it. With no variable set, Start returns a Telemetry that does
// nothing: the server wraps no handler, adds no middleware and opens no connection.
//
// # Spans
//
// The spans follow the semantic conventions for messaging:
//
//   - publish: a push, or a message of a schedule.
//   - receive: a pop that delivers messages. A pop that delivers nothing has no span. The span begins when the oldest message was
//     stored, or when the pop arrived if that was later.
//   - settle: the acknowledgments of a request.
//   - transact: a transaction or a cycle of a stream.
//
// A request of another route has a span of the kind SERVER. Probes, metrics and streams have none.
//
// # Contexts
//
//   - The header traceparent of an HTTP request is the parent of the span of the request.
//   - The header traceparent of a message names the span that created the message. The server sets it in a push if the message has
//     none, and the publish span is sampled or the request had a traceparent. So a server that samples 1 % of its traces adds no
//     header to the other 99 % of the messages. A message that came with a traceparent keeps it, and the publish span has a link
//     to it.
//   - The server sets no header in a transaction or a cycle. The server recognizes a repeated transaction by a hash of its
//     operations, and a header of each attempt would change the hash.
//   - A receive span has a link to the traceparent of each message. If the pop delivers one message and its request had no
//     traceparent, the traceparent of the message is the parent instead. So the sampling decision of the producer counts.
//
// # Database spans
//
// The spans of statements come from otelpgx, only at the log level debug. They are children of sampled spans. A group commit does
// the work of many requests: its statements belong to the first request that has a sampled span. The claim of a waiting pop runs
// before its receive span exists, so it has no spans.
//
// pkg/app, pkg/httpapi and pkg/engine may import the package.
package tracing
