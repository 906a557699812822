// Package client is the Go client of Belfry. It uses the HTTP API and imports no package of the server. Package client/api has
// the types of all requests and answers. This package has aliases for the types that programs use most:
//
//	c, err := client.New(client.Config{URLs: []string{"http://localhost:6632"}})
//	stored, err := c.Push(ctx, client.Item{Queue: "orders", Payload: order})
//
// # Pushing
//
// [Client.Push] and [Client.PushMany] return when the messages are stored. A [Producer] collects the messages of many
// goroutines and sends them in few requests. If a message has no transaction id, the client generates an id. So the client can
// repeat a request that got no answer, and the server stores no message twice.
//
// # Consuming
//
// [Consume] calls a handler for each message, and [Messages] is an iterator. Both receive the messages of a partition
// strictly in order, extend the lease while a handler works, and acknowledge in batches. A message is delivered at
// least once. It is delivered again after a crash, after a lost lease, or if an acknowledgment did not reach the server.
// [Client.Pop] and [Client.Ack] are the single steps. [Client.Transact] pushes and acknowledges in one transaction.
//
// # Servers, repetition and time
//
// All instances of Belfry that share one database are equal. A client with several URLs uses the first server. When a request
// fails because the server is not available, the client changes to the next server. It repeats a request after a failed
// connection, 429, 502, 503 and 504. The pauses grow, and last at least the Retry-After of the answer. [Config.RetryFor] limits
// the repetition.
//
// Every call that may block takes a context. When the context ends, the call returns an error that wraps the cause of the
// context. Durations in the options of a call are time.Durations. Each field says whether the server counts in seconds or
// milliseconds. Numbers in requests and answers have their unit in their name, such as DelaySeconds of an [Item].
//
// # Errors
//
// A call returns an [*Error] if the answer is not a success or no server can be reached. Compare it with the variables of this
// package, such as [ErrForbidden], by errors.Is.
//
// # Traces
//
// The traceId of a message is a UUID. It has the 16 bytes of a W3C trace id. [TraceID] returns the traceId for a traceparent
// header. [WithTraceID] sets the traceId of all pushes of a context. The context of a handler has the traceId of its message.
//
// With [Config.TracerProvider], the client makes OpenTelemetry spans: publish, process around each handler, and settle. The header
// traceparent of a message has the context of its publish span, which is the parent of the process span.
package client
