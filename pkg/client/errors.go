package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// These errors are for errors.Is. The first ones match an *Error by its status.
var (
	// ErrInvalid is 400, or a request that the client does not send: it can never work, and nothing was done.
	ErrInvalid = errors.New("the request is invalid")
	// ErrUnauthorized is 401: the token is missing or not valid.
	ErrUnauthorized = errors.New("the token is missing or not valid")
	// ErrForbidden is 403: the token does not permit the request.
	ErrForbidden = errors.New("the token does not permit the request")
	// ErrNotFound is 404.
	ErrNotFound = errors.New("not found")
	// ErrConflict is 409.
	ErrConflict = errors.New("in conflict with the state of the server")
	// ErrTooLarge is 413: send fewer items per call.
	ErrTooLarge = errors.New("the request is too large")
	// ErrQueueFull is 429: the queue has reached its maxSize, and nothing was stored.
	ErrQueueFull = errors.New("the queue is full")
	// ErrServer is 500: a mistake of the server, or a pop met a message that cannot be read.
	ErrServer = errors.New("internal error of the server")
	// ErrUnavailable is 502, 503, 504, a failed connection, or a failed TokenFunc.
	ErrUnavailable = errors.New("no server is available")

	// ErrLeaseLost means that a lease has ended, and that its messages are delivered again. It is the error of Extend, and the
	// cause of the context of a handler.
	ErrLeaseLost = errors.New("the lease has ended")
	// ErrClosed is the error of a Producer after Close.
	ErrClosed = errors.New("the producer is closed")
	// ErrAcknowledged is for handlers of Consume: the handler acknowledged the message itself, for example with
	// Transact, and Consume must not do it.
	ErrAcknowledged = errors.New("the handler acknowledged the message")
)

// statuses has the error of each status.
var statuses = map[int]error{
	0:                                ErrUnavailable,
	http.StatusBadRequest:            ErrInvalid,
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusForbidden:             ErrForbidden,
	http.StatusNotFound:              ErrNotFound,
	http.StatusConflict:              ErrConflict,
	http.StatusRequestEntityTooLarge: ErrTooLarge,
	http.StatusTooManyRequests:       ErrQueueFull,
	http.StatusInternalServerError:   ErrServer,
	http.StatusBadGateway:            ErrUnavailable,
	http.StatusServiceUnavailable:    ErrUnavailable,
	http.StatusGatewayTimeout:        ErrUnavailable,
}

// Error is an answer that is no success, or a request without an answer.
type Error struct {
	// Method and Path name the request. URL is the server, without user and password.
	Method, Path, URL string
	// Status is the HTTP status, or 0 if there was no answer.
	Status int
	// Message is the text of the server: what is wrong and what to change.
	Message string
	// RetryAfter is the pause that the server asks for, or 0.
	RetryAfter time.Duration
	// RequestID is the X-Request-Id of the answer, or "". The audit of the server has it.
	RequestID string
	// Body is the body of the answer.
	Body []byte

	// cause is why there was no answer.
	cause error
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("%s %s%s: %v", e.Method, e.URL, e.Path, e.cause)
	}
	return fmt.Sprintf("%s %s%s answered %d: %s", e.Method, e.URL, e.Path, e.Status, e.Message)
}

// Is reports whether target is the variable for the status.
func (e *Error) Is(target error) bool { return statuses[e.Status] == target }

func (e *Error) Unwrap() error { return e.cause }

// unsent reports whether the server certainly did not get the request.
func (e *Error) unsent() bool {
	var dial *net.OpError
	return e.Status == 0 && errors.As(e.cause, &dial) && dial.Op == "dial"
}

// temporary reports whether the same request may succeed later, and the server permits a repetition. A repeatable request has
// the same effect once and twice.
func (e *Error) temporary(repeatable bool) bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case 0, http.StatusBadGateway, http.StatusGatewayTimeout:
		return repeatable || e.unsent()
	}
	return false
}

// divisible reports whether a part of the same request may succeed.
func (e *Error) divisible() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return true
	}
	return false
}

// refusal returns the error of an answer.
func (e *Error) refusal(status int, header http.Header, body []byte) *Error {
	var text api.Error
	e.Status, e.Body, e.RequestID = status, body, header.Get("X-Request-Id")
	if json.Unmarshal(body, &text) == nil && text.Error != "" {
		e.Message = text.Error
	} else {
		e.Message = http.StatusText(status)
	}
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
