package wire

import (
	"io"
	"net/http"

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
	memory *inflight.Reservation
}

// Read returns queue.MemoryFull when no memory is left.
func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if !m.memory.TakeBody(n) {
		return 0, queue.MemoryFull()
	}
	return n, err
}

// drain reads the rest of a body without keeping it, so that the client reads the answer: many clients
// send the whole body first. The limit and the deadline of the body still hold.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, body) }

// body returns the body of a request, bounded by MaxBytes.
func (r BodyReader) body(c echo.Context) io.Reader {
	return http.MaxBytesReader(c.Response(), c.Request().Body, r.MaxBytes)
}
