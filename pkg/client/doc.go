// Package client is the Go client of Belfry. It speaks the HTTP API and imports no package of the server. Package client/api has
// all requests and answers. This package has aliases for those that are used most:
//
//	c, err := client.New(client.Config{URLs: []string{"http://localhost:6632"}})
//	stored, err := c.Push(ctx, client.Item{Queue: "orders", Payload: order})
//
// # Pushing
//
// [Client.Push] and [Client.PushMany] return when the messages are stored. A [Producer] collects the messages of many
// goroutines and sends them in few requests. A message without a transaction id gets one from the client, so a request
// that got no answer is repeated without storing a message twice.
//
// # Consuming
//
// [Consume] calls a handler for each message, and [Messages] is an iterator. Both receive the messages of a partition
// strictly in order, extend the lease while a handler works, and acknowledge in batches. A message is delivered at
// least once: it comes again after a crash, after a lost lease, or if the answer to an acknowledgment was lost. [Client.Pop] and
// [Client.Ack] are the single steps. [Client.Transact] pushes and acknowledges in one transaction.
//
// # Servers, repetition and time
//
// All instances of one Belfry are equal. A client with several URLs uses the first one, and goes on to the next one when
// a request fails because the server is not available. A request is repeated after a failed connection, 429, 502, 503
// and 504, with growing pauses, but not before the Retry-After of the answer. [Config.RetryFor] bounds the repetition.
//
// Every call that may block takes a context. A call returns when its context ends. Its error then wraps the cause of the
// context. Times in the options of a call are time.Durations; each field says if the server counts in seconds or milliseconds.
// Requests and answers have numbers whose unit is in their name, such as DelaySeconds of an [Item].
//
// # Errors
//
// A call returns an [*Error] if the answer is not a success or the server cannot be reached. Compare it by errors.Is with the
// variables of this package, such as [ErrForbidden].
//
// # Traces
//
// The traceId of a message is a UUID. A W3C trace id has the same 16 bytes. [TraceID] reads it from a traceparent header, and
// [WithTraceID] makes all pushes of a context carry it. The context of a handler carries the trace id of its message.
package client
