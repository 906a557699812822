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

// These errors are for errors.Is. ErrInvalid to ErrUnavailable match an *Error by its status.
var (
	// ErrInvalid is 400, or a request that the client refuses to send. The request can never succeed, and changed nothing.
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
	// ErrServer is 500: an internal error of the server, or a pop of a message that the server cannot read.
	ErrServer = errors.New("internal error of the server")
	// ErrUnavailable is 502, 503, 504, a failed connection, or a failed TokenFunc.
	ErrUnavailable = errors.New("no server is available")

	// ErrLeaseLost means that a lease has ended, and that its messages are delivered again. Extend returns it. It is also the
	// cause of a handler's context that ended because of the lease.
	ErrLeaseLost = errors.New("the lease has ended")
	// ErrClosed is the error of a Producer after Close.
	ErrClosed = errors.New("the producer is closed")
	// ErrAcknowledged is for handlers of Consume. It means that the handler acknowledged the message itself, for example with
	// Transact, and that Consume must not acknowledge it.
	ErrAcknowledged = errors.New("the handler acknowledged the message")
)

// statuses maps each HTTP status to its error. 0 means no answer.
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

// Error describes an answer without a 2xx status, or a request without an answer.
type Error struct {
	// Method and Path name the request. URL is the server, without user and password.
	Method, Path, URL string
	// Status is the HTTP status, or 0 if there was no answer.
	Status int
	// Message is the text of the server. It says what is wrong and what to change.
	Message string
	// RetryAfter is the pause that the server asks for, or 0.
	RetryAfter time.Duration
	// RequestID is the X-Request-Id of the answer, or "". The audit of the server has it.
	RequestID string
	// Body is the body of the answer.
	Body []byte

	// cause is the reason why there was no answer.
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

// unsent reports whether the request certainly did not reach the server.
func (e *Error) unsent() bool {
	var dial *net.OpError
	return e.Status == 0 && errors.As(e.cause, &dial) && dial.Op == "dial"
}

// temporary reports whether the same request may succeed later and can be repeated without a second effect. repeatable means
// that a second request has no further effect.
func (e *Error) temporary(repeatable bool) bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case 0, http.StatusBadGateway, http.StatusGatewayTimeout:
		return repeatable || e.unsent()
	}
	return false
}

// divisible reports whether a part of the request may succeed alone.
func (e *Error) divisible() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return true
	}
	return false
}

// refusal completes e with the status, headers and body of an answer, and returns e.
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
