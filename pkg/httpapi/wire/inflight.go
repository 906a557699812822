package wire

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const memoryKey = "belfry.memory" // the *inflight.Reservation of a request

// ReturnMemory returns to the budget what a request has reserved, after its answer was written.
func ReturnMemory(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer func() {
			if r, ok := c.Get(memoryKey).(*inflight.Reservation); ok {
				r.End()
			}
		}()
		return next(c)
	}
}

// Memory returns the memory that a request and its answer reserve from b until ReturnMemory.
func Memory(c echo.Context, b *inflight.Budget) *inflight.Reservation {
	r, ok := c.Get(memoryKey).(*inflight.Reservation)
	if !ok {
		r = b.Reservation()
		c.Set(memoryKey, r)
	}
	return r
}

// meteredBody reserves memory for the bytes of a body as they arrive.
type meteredBody struct {
	io.Reader
	memory *inflight.Body
	// woken: a Read ended because its deadline was over.
	woken bool
}

// Read returns queue.MemoryFull when no memory is left, and ErrLostPlace when the body has lost it.
func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.woken = errors.Is(err, os.ErrDeadlineExceeded)
	ok := m.memory.Take(n)
	if ok && errors.Is(err, io.EOF) {
		ok = m.memory.Arrived()
	}
	switch {
	case m.memory.Lost():
		return 0, ErrLostPlace
	case !ok:
		return 0, queue.MemoryFull()
	}
	return n, err
}

// ErrLostPlace is the error of a body that lost its memory to another one. It may have ended the context of the request.
var ErrLostPlace error = &queue.Error{
	Code: queue.CodeOverloaded, RetryAfter: time.Second,
	Message: "the requests in flight use all of http.max_inflight_bytes, and this body arrived slowly or its sender had more than a share: repeat the request later",
}

// drain reads the rest of a body without keeping it, so that the client reads the answer: many clients
// send the whole body first. The limit and the deadline of the body still hold.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, body) }
