package queue

import (
	"errors"
	"fmt"
	"time"
)

// Code says what kind of failure an error is. There are few, and one table in
// pkg/httpapi turns each into a status.
type Code string

// The error codes.
const (
	// CodeInvalid: the caller sent something that can never work; Message says
	// what to change. 400.
	CodeInvalid Code = "invalid"
	// CodeTooLarge: the body is over the limit. 413.
	CodeTooLarge Code = "too_large"
	// CodeNotFound: the named thing does not exist. 404.
	CodeNotFound Code = "not_found"
	// CodeLeaseGone: the lease expired, or was never given. 409.
	CodeLeaseGone Code = "lease_gone"
	// CodeQueueFull: the queue holds as much as its maxSize allows; nothing was
	// stored. 429.
	CodeQueueFull Code = "queue_full"
	// CodeUnavailable: the database cannot be reached now; the same request
	// may be sent again after RetryAfter. 503.
	CodeUnavailable Code = "unavailable"
	// CodeOverloaded: a bound of this server is reached; nothing was done. 503.
	CodeOverloaded Code = "overloaded"
	// CodeInternal: everything else. 500; the text stays in the log.
	CodeInternal Code = "internal"
)

// Error is a failure whose meaning a caller may act on. Message is for the
// person who sent the request: it names the field and says what to change.
type Error struct {
	Code    Code
	Message string
	// RetryAfter is set with CodeUnavailable, CodeOverloaded and CodeQueueFull.
	RetryAfter time.Duration
	// Timeout, with CodeUnavailable: the statement exceeded its time.
	Timeout bool
	// Err is the cause; it is logged, never sent.
	Err error
}

// Error returns the message and, when there is one, the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Invalidf builds a CodeInvalid error.
func Invalidf(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of err: the first *Error in its chain, or
// CodeInternal. CodeOf(nil) is "".
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
