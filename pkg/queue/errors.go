package queue

import (
	"errors"
	"fmt"
	"time"
)

// Code says what kind of failure an error is. One table in pkg/httpapi maps each
// code to an HTTP status.
type Code string

// The error codes.
const (
	// CodeInvalid: the request can never succeed as it is. Message says what to
	// change. HTTP 400.
	CodeInvalid Code = "invalid"
	// CodeUnauthenticated: the request has no valid token. HTTP 401.
	CodeUnauthenticated Code = "unauthenticated"
	// CodeForbidden: the principal may not do this. HTTP 403.
	CodeForbidden Code = "forbidden"
	// CodeTooLarge: the body exceeds the limit. HTTP 413.
	CodeTooLarge Code = "too_large"
	// CodeTooSlow: the body did not arrive in time. HTTP 408.
	CodeTooSlow Code = "too_slow"
	// CodeEncoded: the body is compressed. The server accepts only uncompressed bodies. HTTP 415.
	CodeEncoded Code = "encoded"
	// CodeNotFound: the named object does not exist. HTTP 404.
	CodeNotFound Code = "not_found"
	// CodeLeaseGone: the lease expired or never existed. HTTP 409.
	CodeLeaseGone Code = "lease_gone"
	// CodeConflict: the object has changed since, so the request would not do what its sender expects. Message says what has
	// changed. HTTP 409.
	CodeConflict Code = "conflict"
	// CodeQueueFull: the queue has reached its maxSize. Nothing was stored.
	// HTTP 429.
	CodeQueueFull Code = "queue_full"
	// CodeUnavailable: the database cannot be reached now. The client may send
	// the same request again after RetryAfter. HTTP 503.
	CodeUnavailable Code = "unavailable"
	// CodeOverloaded: the server has reached one of its limits. Nothing was done.
	// HTTP 503.
	CodeOverloaded Code = "overloaded"
	// CodeUndeliverable: the payload of a message cannot be decrypted, or Postgres cannot read the message. Error.Message names
	// the queue message. HTTP 500.
	CodeUndeliverable Code = "undeliverable"
	// CodeNotServed: the API of Queen MQ has this call, and Belfry does not. Message says what to do instead. HTTP 501.
	CodeNotServed Code = "not_served"
	// CodeInternal: every other failure. HTTP 500. The server logs the text and does not send it.
	CodeInternal Code = "internal"
)

// Error is a failure that a caller can act on. Message is written for the sender
// of the request: it names the field and says what to change.
type Error struct {
	Code    Code
	Message string
	// RetryAfter is set with CodeUnavailable, CodeOverloaded and CodeQueueFull.
	RetryAfter time.Duration
	// Timeout: the statement exceeded its time limit. Set only with
	// CodeUnavailable.
	Timeout bool
	// Err is the cause. It is logged and never sent.
	Err error
}

// ErrJoining is the cause of a CodeOverloaded error of a pop. The group of the pop still joins the queue, and the partitions that
// the group has joined had no message. The client may send the pop again.
var ErrJoining = errors.New("the consumer group is joining the queue")

// Joining returns the error of a pop whose group still joins the queue. The cause of the error is ErrJoining.
func Joining(queueName, group string) *Error {
	return &Error{
		Code: CodeOverloaded, RetryAfter: time.Second, Err: ErrJoining,
		Message: fmt.Sprintf("group %q is joining queue %q, which has many partitions; the partitions joined so far have no message; send the request again",
			group, queueName),
	}
}

// MemoryFull returns the error of a request for which http.max_inflight_bytes leaves no memory.
func MemoryFull() error {
	return &Error{
		Code: CodeOverloaded, RetryAfter: time.Second,
		Message: "the requests in flight use all of http.max_inflight_bytes: repeat the request later",
	}
}

// Error returns the message, followed by the cause if there is one.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Invalidf returns a CodeInvalid error.
func Invalidf(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first *Error in the chain of err. A chain without
// an *Error has CodeInternal. CodeOf(nil) is "".
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
