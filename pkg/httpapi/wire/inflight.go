package wire

import (
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	inflightKey   = "belfry.inflight" // the *reservation of a request
	inflightRetry = time.Second
)

// reservation is the memory that one request has reserved.
type reservation struct {
	budget *inflight.Budget
	body   int64
	answer int64
}

// ReturnMemory returns to the budget what a request has reserved, after its answer was written.
func ReturnMemory(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer func() {
			if r, ok := c.Get(inflightKey).(*reservation); ok {
				r.budget.GiveBackBody(r.body)
				r.budget.GiveBackAnswer(r.answer)
			}
		}()
		return next(c)
	}
}

// HoldAnswer reserves the memory for an answer of n bytes until ReturnMemory.
func HoldAnswer(c echo.Context, b *inflight.Budget, n int) {
	r := reservationOf(c, b)
	r.answer += b.HoldAnswer(int64(n))
}

func reservationOf(c echo.Context, b *inflight.Budget) *reservation {
	r, ok := c.Get(inflightKey).(*reservation)
	if !ok {
		r = &reservation{budget: b}
		c.Set(inflightKey, r)
	}
	return r
}

// MemoryFull is the error of a request for which http.max_inflight_bytes has no room.
func MemoryFull() error {
	return &queue.Error{
		Code: queue.CodeOverloaded, RetryAfter: inflightRetry,
		Message: "the requests in flight use all of http.max_inflight_bytes: repeat the request later",
	}
}

// meteredBody reserves memory for the bytes of a body as they arrive.
type meteredBody struct {
	io.Reader
	reserved *reservation
}

// Read returns the error of MemoryFull when no memory is left.
func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	memory, ok := m.reserved.budget.TakeBody(int64(n))
	if !ok {
		return 0, MemoryFull()
	}
	m.reserved.body += memory
	return n, err
}

// drain reads the rest of a body without keeping it, so that the client reads the answer: many clients
// send the whole body first. The limit and the deadline of the body still hold.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, body) }

// body returns the body of a request, bounded by MaxBytes.
func (r BodyReader) body(c echo.Context) io.Reader {
	return http.MaxBytesReader(c.Response(), c.Request().Body, r.MaxBytes)
}
